"""Recorded results: read with what made them, refused where their record is missing or says too little."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from leakbench.artefacts import write_table
from leakbench.errors import UserError
from leakbench.reference import EXHIBIT, files, fuller, kept_digests, read_recorded, run_of, tables

ROW = {"metric": "psnr", "mean": 20.0, "baseline": "", "seeds": "0", "n": 2}


def record(root: Path, scale: str, experiment: str = "some", **changes: Any) -> Path:
    folder = root / "reference" / scale
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([ROW | {"scale": scale}]).to_csv(folder / f"{experiment}.csv", index=False)
    told = {
        "device": f"the {scale} machine",
        "commit": "abc",
        "date": "2026-01-01",
        "specs": "1",
        "code": "2",
        "versions": {},
        "absent": {},
    } | changes
    (folder / f"{experiment}.json").write_text(json.dumps(told))
    return folder / f"{experiment}.csv"


def test_other_scales_are_read_with_their_device(tmp_path: Path) -> None:
    for scale in ("long", "paper", "quick"):
        record(tmp_path, scale)
    found = read_recorded(files(tmp_path, "some"), "quick")
    assert found["scale"].tolist() == ["long", "paper"]
    assert found["device"].tolist() == ["the long machine", "the paper machine"]
    assert found["baseline"].tolist() == ["", ""]


def test_what_was_not_recorded_is_empty(tmp_path: Path) -> None:
    assert read_recorded(files(tmp_path, "some"), "quick").empty
    record(tmp_path, "quick")
    assert read_recorded(files(tmp_path, "some"), "quick").empty
    assert read_recorded(files(tmp_path, "other"), "paper").empty


def test_a_table_its_record_and_its_trials_belong_together(tmp_path: Path) -> None:
    table = record(tmp_path, "long")
    record(tmp_path, "long", "other")
    assert [path.name for path in files(tmp_path, "some")] == ["some.csv", "some.json"]
    write_table(table.with_suffix(".parquet"), pd.DataFrame({"line": [0], "value": [20.0]}), {})
    assert [path.name for path in files(tmp_path, "*")] == [
        "other.csv",
        "other.json",
        "some.csv",
        "some.json",
        "some.parquet",
    ]
    (other, some) = tables(files(tmp_path, "*"))
    assert (other[1], len(other[3]), some[1], len(some[3])) == ("other", 0, "some", 1)


@pytest.mark.parametrize("key", ["device", "commit", "date", "specs", "code"])
def test_a_record_that_says_too_little_is_refused(key: str, tmp_path: Path) -> None:
    record(tmp_path, "long", **{key: None})
    with pytest.raises(UserError, match=rf"some\.json: {key}: Input should be a valid string, got None"):
        read_recorded(files(tmp_path, "some"), "quick")


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("files", 5, "files: Input should be a valid dictionary, got 5"),
        ("files", {".csv": 5}, r"files\.\.csv: Input should be a valid string, got 5"),
        ("absent", "x", "absent: Input should be a valid dictionary, got 'x'"),
        ("falls", {"a": ["x"]}, r"falls\.a\.0: Input should be a valid number, got 'x'"),
        ("shares", {"a": {"victim": math.nan}}, "the record of some.csv: victim: nan is no finite number"),
        ("knows", {"a": 1}, r"knows\.a: Input should be a valid dictionary, got 1"),
        ("confirmed", ["code"], r"confirmed: Input should be a valid dictionary, got \['code'\]"),
    ],
)
def test_a_strangers_record_is_one_line_with_file_and_key(
    key: str, value: Any, told: str, tmp_path: Path
) -> None:
    record(tmp_path, "long", **{key: value})
    with pytest.raises(UserError, match=rf"some\.json: .*{told}"):
        read_recorded(files(tmp_path, "some"), "quick")


def test_a_record_cut_short_is_refused(tmp_path: Path) -> None:
    path = record(tmp_path, "long")
    whole = path.read_text()
    path.write_text(whole[:-5])
    with pytest.raises(UserError, match=r"some\.csv: not a whole table"):
        read_recorded(files(tmp_path, "some"), "quick")
    path.write_text(whole)
    path.with_suffix(".json").write_text("{")
    with pytest.raises(UserError, match=r"some\.json: not the record of some\.csv"):
        read_recorded(files(tmp_path, "some"), "quick")


def test_a_table_or_trials_that_somebody_altered_are_no_evidence(tmp_path: Path) -> None:
    table = record(tmp_path, "long")
    trials = table.with_suffix(".parquet")
    write_table(trials, pd.DataFrame({"line": [0], "value": [20.0]}), {})
    record(tmp_path, "long", files=kept_digests(table))
    assert len(read_recorded(files(tmp_path, "some"), "quick")) == 1
    whole = table.read_text()
    table.write_text(whole.replace("20.0", "29.0"))
    with pytest.raises(UserError, match=r"some\.csv: is not the file that was recorded \(restore it"):
        read_recorded(files(tmp_path, "some"), "quick")
    table.write_text(whole)
    # Trials of another run are whole in themselves.
    write_table(trials, pd.DataFrame({"line": [0], "value": [29.0]}), {})
    with pytest.raises(UserError, match=r"some\.parquet: is not the file that was recorded"):
        read_recorded(files(tmp_path, "some"), "quick")
    trials.unlink()
    with pytest.raises(UserError, match=r"some\.parquet: is not the file that was recorded"):
        read_recorded(files(tmp_path, "some"), "quick")


def test_what_the_project_has_recorded_can_be_read() -> None:
    root = Path(__file__).parents[2]
    for table in sorted((root / "reference").glob("*/*.csv")):
        scale, seed = run_of(table.parent.name)
        found = read_recorded(files(root, table.stem, seeded=seed is not None), "")
        assert {"metric", "mean", "n", "scale", "device", "ci_low", "ci_high"} <= set(found)
        assert scale in set(found["scale"])


def test_a_record_stands_in_for_a_run_that_has_less(tmp_path: Path) -> None:
    record(tmp_path, "long")
    kept = record(tmp_path, "paper")
    more = pd.DataFrame([ROW, ROW | {"metric": "ssim"}])
    more.to_csv(kept, index=False)
    paths, one = files(tmp_path, "some"), pd.DataFrame([ROW])
    found = fuller(one, paths, "quick", pictured=False)
    assert found is not None
    assert (found.scale, found.table, len(found.rows)) == ("paper", kept, 2)
    assert found.said() == "recorded on the paper machine, 2026-01-01, commit abc"
    assert fuller(one, paths, "paper", pictured=False) is None
    assert fuller(more, paths, "quick", pictured=False) is None
    assert fuller(one, paths, "quick", pictured=True) is None
    kept.with_suffix(EXHIBIT).touch()
    assert fuller(one, paths, "quick", pictured=True) is not None
    # Null baselines and snapshots are not what an experiment is about.
    nulls = pd.concat([one, one.assign(baseline="random-noise")])
    assert fuller(nulls, paths, "quick", pictured=False) is not None
    assert fuller(pd.DataFrame(), files(tmp_path, "other"), "quick", pictured=False) is None
