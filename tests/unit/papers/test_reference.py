"""Recorded results: read with what made them, refused where their record is missing or says too little."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from project import ROOT

from leakbench.base.artefacts import write_json, write_table
from leakbench.base.errors import UserError
from leakbench.base.whole import SEAL
from leakbench.jobs.figure import fullest
from leakbench.papers.reference import EXHIBIT, files, fuller, kept_digests, run_of, tables

TABLE = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text())

ROW = {"metric": "psnr", "mean": 20.0, "ci_low": 19.0, "ci_high": 21.0, "baseline": "", "seeds": "0", "n": 2}


def record(root: Path, scale: str, experiment: str = "some", **changes: Any) -> Path:
    folder = root / "reference" / scale
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([ROW | {"scale": scale}]).to_csv(folder / f"{experiment}.csv", index=False)
    told = {
        "device": f"the {scale} machine", "commit": "abc", "date": "2026-01-01", "specs": "1", "versions": {},
        "absent": {},
    } | changes  # fmt: skip
    table = folder / f"{experiment}.csv"
    table.with_suffix(".json").write_text(json.dumps({"files": kept_digests(table)} | told))
    return table


def again(table: Path, **changes: Any) -> None:
    """Write the record of what now lies beside a table."""
    told = json.loads(table.with_suffix(".json").read_text()) | {"files": kept_digests(table)} | changes
    table.with_suffix(".json").write_text(json.dumps({key: v for key, v in told.items() if key != SEAL}))


def test_a_recorded_run_is_read_with_its_scale_and_device(tmp_path: Path) -> None:
    for scale in ("long", "paper"):
        record(tmp_path, scale)
    found = tables(files(tmp_path, "some"))
    assert [(kept.name, kept.scale, kept.record["device"]) for kept in found] == [
        ("some", "long", "the long machine"),
        ("some", "paper", "the paper machine"),
    ]
    assert [kept.rows["baseline"].tolist() for kept in found] == [[""], [""]]
    assert tables(files(tmp_path, "other")) == []


def test_a_table_its_record_and_its_trials_belong_together(tmp_path: Path) -> None:
    table = record(tmp_path, "long")
    record(tmp_path, "long", "other")
    assert [path.name for path in files(tmp_path, "some")] == ["some.csv", "some.json"]
    trials = pd.DataFrame({"line": [0], "cluster": "a", "trial": "a", "value": [20.0]})
    write_table(table.with_suffix(".parquet"), trials, {})
    every = ["other.csv", "other.json", "some.csv", "some.json", "some.parquet"]
    assert [path.name for path in files(tmp_path, "*")] == every
    again(table)
    (other, some) = tables(files(tmp_path, "*"))
    assert (other.name, other.trials(), some.name) == ("other", None, "some")
    trials = some.trials()
    assert trials["value"].tolist() == [20.0]


WORDS = ("device", "commit", "date", "specs")
MISSING = [(key, None, f"{key}: Input should be a valid string, got None") for key in WORDS]


@pytest.mark.parametrize(("key", "value", "told"), [*TABLE["record_keys"], *MISSING])
def test_a_strangers_record_is_refused_by_its_key(key: str, value: Any, told: str, tmp_path: Path) -> None:
    record(tmp_path, "long", **{key: value})
    with pytest.raises(UserError, match=rf"some\.json: .*{told}"):
        tables(files(tmp_path, "some"))


def trials_of(table: Path, value: float) -> None:
    write_table(table.with_suffix(".parquet"), pd.DataFrame({"line": [0], "value": [value]}), {})


def replaced(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def cut_short(table: Path) -> None:
    table.write_text(table.read_text()[:-5])
    again(table)


def without_digests(table: Path) -> None:
    told = json.loads(table.with_suffix(".json").read_text())
    write_json(table.with_suffix(".json"), {k: v for k, v in told.items() if k not in ("files", SEAL)})


def without(*suffixes: str) -> Callable[[Path], None]:
    return lambda table: [table.with_suffix(suffix).unlink() for suffix in suffixes] and None


UNLISTED = r": is not in the record beside it \(remove the file"
NOT_RECORDED = r": is not the file that was recorded \(restore it"
RESTORE = r"some\.json: .*restore it with `git checkout`"
FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (cut_short, r"some\.csv: not a whole table"),
    (lambda table: table.with_suffix(".json").write_text("{"), RESTORE),
    (lambda table: replaced(table.with_suffix(".json"), "machine", "computer"), RESTORE),
    (without_digests, r"some\.json: files: Field required"),
    (lambda table: replaced(table, "20.0", "29.0"), rf"some\.csv{NOT_RECORDED}"),
    # Trials of another run are whole in themselves.
    (lambda table: trials_of(table, 29.0), rf"some\.parquet{NOT_RECORDED}"),
    (without(".parquet"), rf"some\.parquet{NOT_RECORDED}"),
    (without(".csv"), rf"some\.csv{NOT_RECORDED}"),
    (without(".json"), r"some\.json: no such record"),
    (without(".json", ".csv"), r"some\.json: no such record"),
    *((lambda table, suffix=suffix: table.with_suffix(suffix).touch(), rf"some{suffix}{UNLISTED}")
      for suffix in (".npz", ".safetensors", EXHIBIT)),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "told"), FAULTS, ids=[told for _, told in FAULTS])
def test_what_was_altered_is_no_evidence(fault: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    table = record(tmp_path, "long")
    trials_of(table, 20.0)
    again(table)
    made = table.with_suffix(".json")
    write_json(made, json.loads(made.read_text()))
    assert len(tables(files(tmp_path, "*"))) == 1
    fault(table)
    with pytest.raises(UserError, match=told):
        tables(files(tmp_path, "*"))


def test_trials_that_no_record_lists_are_refused_and_what_else_lies_there_is_nobodys(tmp_path: Path) -> None:
    table = record(tmp_path, "long")
    trials_of(table, 20.0)
    with pytest.raises(UserError, match=rf"some\.parquet{UNLISTED}"):
        tables(files(tmp_path, "some"))
    for suffix in (".csv", ".json"):
        table.with_suffix(suffix).unlink()
    table.with_suffix(".parquet").rename(table.with_suffix(".txt"))
    assert files(tmp_path, "*") == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"mean": ["\x1c9.5", "20"]}, r"some\.csv: mean: '\\x1c9\.5' is no number"),
     ({"std": "x"}, r"some\.csv: std: 'x' is no number"),
     ({"n": [None, 2]}, r"some\.csv: n: an empty cell is no number"),
     ({"n": 1e300}, r"some\.csv: n: 1e\+300 is no number"),
     ({"iterations": float("inf")}, r"some\.csv: iterations: inf is no number"),
     ({"seeds": "0 x"}, r"some\.csv: seeds: '0 x' are no seeds"),
     ({"ci_low": ...}, r"some\.csv: column 'ci_low' is missing")],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_table_without_numbers_is_no_evidence(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    table = record(tmp_path, "long")
    rows = pd.DataFrame({key: [value] * 2 for key, value in ROW.items()}).assign(**changes)
    rows.drop(columns=[key for key, value in changes.items() if value is ...]).to_csv(table, index=False)
    again(table)
    with pytest.raises(UserError, match=says):
        tables([table])


def test_every_record_of_the_repository_has_a_digest_of_its_own() -> None:
    records = sorted((ROOT / "reference").glob("*/*.json"))
    assert records
    assert [path for path in records if SEAL not in json.loads(path.read_text())] == []


def test_what_the_project_has_recorded_can_be_read() -> None:
    for table in sorted((ROOT / "reference").glob("*/*.csv")):
        (kept,) = tables([table])
        assert {"metric", "mean", "n", "scale", "ci_low", "ci_high"} <= set(kept.rows)
        assert set(kept.rows["scale"]) == {run_of(kept.scale)[0]}


def test_a_record_stands_in_for_a_run_that_has_less(tmp_path: Path) -> None:
    record(tmp_path, "long")
    kept = record(tmp_path, "paper")
    more = pd.DataFrame([ROW, ROW | {"metric": "ssim"}])
    more.to_csv(kept, index=False)
    again(kept)
    runs, one = tables(files(tmp_path, "some")), pd.DataFrame([ROW])
    found = fuller(one, runs, "quick", pictured=False)
    assert (found.scale, found.table, len(found.rows)) == ("paper", kept, 2)
    assert found.said() == "recorded on the paper machine, 2026-01-01, commit abc"
    beside = replace(found, rows=found.rows.assign(baseline="other-update"))
    assert beside.said() == f"{found.said()}, where the null of another update took the next one"
    assert replace(beside, record=beside.record | {"partners": "drawn"}).said() == found.said()
    assert fuller(one, runs, "paper", pictured=False) is None
    assert fuller(more, runs, "quick", pictured=False) is None
    assert fuller(one, runs, "quick", pictured=True) is None
    # A drawing of dots has no pictures, so that a record without them serves.
    facts = {"panels": [{}], "scale": "quick"}
    for drawing, there in (("dots", True), ("grid", False)):
        assert (fullest(one, facts, runs, {"figure": [{"drawing": drawing}]}) is not None) is there
    kept.with_suffix(EXHIBIT).touch()
    assert fuller(one, runs, "quick", pictured=True) is not None
    # Null baselines and snapshots are not what an experiment is about.
    nulls = pd.concat([one, one.assign(baseline="random-noise")])
    assert fuller(nulls, runs, "quick", pictured=False) is not None
    assert fuller(pd.DataFrame(), [], "quick", pictured=False) is None
