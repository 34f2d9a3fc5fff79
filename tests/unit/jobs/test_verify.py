"""A tree's numbers beside recorded ones: identical, near, apart, gone, new."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from project import ROOT

from leakbench.base.artefacts import read_json, write_json
from leakbench.base.errors import UserError
from leakbench.base.provenance import machine
from leakbench.base.whole import SEAL
from leakbench.catalogue.resolve import Plan, plan
from leakbench.jobs.verify import _numbers, _recorded, compared, status, table_digest, verify
from leakbench.papers.reference import kept_digests

LINE = {
    "dataset": "d", "attack": "a", "baseline": "", "convention": "standard", "unit": "image",
    "scale": "quick", "mean": 1.0, "ci_low": 0.5, "ci_high": 1.5, "n": 3,
}  # fmt: skip
NONE = (math.nan, math.nan)
DEVICE = "cpu: a test"


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path) -> None:
    """Give every tree of a test the scale that is called quick."""
    for tree in ("", "one", "two"):
        folder = tmp_path / tree / "config/scales"
        folder.mkdir(parents=True)
        (folder / "quick.yaml").write_text("summary: Short.\nnull_rounds: 2\n")


def write(root: Path, name: str, *rows: dict[str, object]) -> Path:
    path = root / "results/quick/tables" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([LINE | row for row in rows]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    ("measured", "known", "interval", "told"),
    [
        (2.0, 2.0, NONE, "identical"), (math.nan, math.nan, NONE, "identical"),
        (2.001, 2.0, NONE, "within tolerance"), (-2.001, -2.0, NONE, "within tolerance"),
        (2.5, 2.0, (1.0, 3.0), "within tolerance"), (2.5, 2.0, (1.0, 2.4), "different"),
        (2.5, 2.0, NONE, "different"), (math.nan, 2.0, (1.0, 3.0), "different"),
        (1e-9, 0.0, NONE, "different"),
    ],
)  # fmt: skip
def test_how_a_number_stands(measured: float, known: float, interval: tuple[float, float], told: str) -> None:
    assert status(measured, known, *interval) == told


def test_a_tree_is_its_own_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "x", {"metric": "mse"}, {"metric": "psnr", "mean": 20.0})
    verify(tmp_path, "quick", record=DEVICE)
    verify(tmp_path, "quick", out=tmp_path / "verified.csv")
    said = capsys.readouterr().out
    assert "1 of 1 tables are byte by byte those recorded on cpu: a test; of 2 numbers 2 identical" in said
    assert f"this machine is another device ({machine()})" in said
    verify(tmp_path, "quick", record=f"{machine()}, one thread")
    verify(tmp_path, "quick")
    assert "another device" not in capsys.readouterr().out
    verify(tmp_path, "quick", record=DEVICE)
    summary = json.loads((tmp_path / "verified.json").read_text())
    others = dict.fromkeys(("within tolerance", "different", "missing", "new"), 0)
    assert summary["numbers"] == {"identical": 2} | others
    assert summary["recorded"]["device"] == DEVICE
    assert "twice" not in summary["recorded"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"tables": {}}, r"quick\.json: tables: Dictionary should have at least 1 item"),
     ({"tables": {"y": "1"}}, r"quick\.json: tables: has no digest of 'x', unlike quick\.csv"),
     ({"files": {}}, r"quick\.json: files: has no digest of quick\.csv"),
     ({"files": None}, r"quick\.json: files: Input should be a valid dictionary, got None"),
     ({"tables": 5}, r"quick\.json: tables: Input should be a valid dictionary, got 5"),
     ({"device": None}, r"quick\.json: device: Input should be a valid string, got None"),
     ({"twice": {"tables": math.nan}}, r"quick\.json: not quick.csv's record: tables: nan is no")],
)  # fmt: skip
def test_a_broken_record_of_a_tree_is_one_line(changes: dict[str, object], told: str, tmp_path: Path) -> None:
    write(tmp_path, "x", {"metric": "mse"})
    verify(tmp_path, "quick", record=DEVICE)
    made = tmp_path / "reference/quick.json"
    value = json.loads(made.read_text()) | changes
    value.pop(SEAL)
    made.write_text(json.dumps(value))
    with pytest.raises(UserError, match=told):
        verify(tmp_path, "quick")


def test_recorded_numbers_that_somebody_altered_are_no_evidence(tmp_path: Path) -> None:
    write(tmp_path, "x", {"metric": "mse"}, {"metric": "psnr"})
    verify(tmp_path, "quick", record=DEVICE)
    csv, made = (tmp_path / f"reference/quick.{suffix}" for suffix in ("csv", "json"))
    text, record, another = csv.read_text(), made.read_text(), "quick.csv: is not the file that was recorded"
    for file, other, says in (
        (csv, text.replace("1.5", "1.6"), another), (csv, "\n".join(text.splitlines()[:2]), another),
        (csv, None, another), (made, None, "quick.json: no such record"),
        (made, record.replace(DEVICE, f"{DEVICE} "), "quick.json: its bytes have sha256"),
    ):  # fmt: skip
        file.unlink() if other is None else file.write_text(other)
        with pytest.raises(UserError, match=re.escape(says)):
            verify(tmp_path, "quick")
        csv.write_text(text)
        made.write_text(record)


# Attacks that refuse some networks, and a defence that refuses one: such a cell may have no numbers.
REFUSING = {"imprint", "peel", "spear"}
REFUSED = {("dense-tanh", "key-lock")}


def missing(known: pd.DataFrame, planned: Plan) -> set[str]:
    """Return the planned cells of which no number is recorded, and what is recorded and not planned."""
    lines = [f"{row.experiment}; {row.line}; " for row in known.itertuples()]
    found = {re.sub(r"(checkpoint=.*|metric=.*)", "", line) for line in lines}
    own = ("dataset", "victim", "federation", "defence", "attack")
    every = ((name, cell) for name, cells in planned.experiments.items() for cell in cells)
    wanted = {
        f"{name}; " + "".join(f"{key}={getattr(cell, key)}; " for key in own) for name, cell in every
        if cell.attack not in REFUSING and (cell.victim, cell.defence) not in REFUSED
    }  # fmt: skip
    cells = {name for name, cells in planned.experiments.items() if cells}
    return (wanted - found) | (set(known["experiment"]) - cells)


def test_what_the_project_has_recorded_of_a_tree_is_whole() -> None:
    csv = ROOT / "reference/quick.csv"
    known, facts = _recorded(csv, csv.with_suffix(".json"))
    planned = plan(ROOT, "quick")
    assert missing(known, planned) == set()
    assert set(known["experiment"]) <= set(facts["tables"]) <= set(planned.experiments)
    # Guards the lines above.
    names = sorted(set(known["experiment"]))
    for part in (known[known["experiment"].isin(names[::2])], known.iloc[: len(known) // 2]):
        assert missing(part, planned)


def without(root: Path, column: str) -> list[Path]:
    table = root / "results/quick/tables/x.csv"
    pd.read_csv(table).drop(columns=column).to_csv(table, index=False)
    return [table]


def test_recorded_numbers_without_a_column_are_one_line(tmp_path: Path) -> None:
    write(tmp_path, "x", {"metric": "mse"})
    verify(tmp_path, "quick", record=DEVICE)
    csv = tmp_path / "reference/quick.csv"
    csv.write_text(csv.read_text().replace("ci_low", "low"))
    made = csv.with_suffix(".json")
    write_json(made, read_json(made, "", "") | {"files": kept_digests(csv)})
    with pytest.raises(UserError, match=r"quick\.csv: column 'ci_low' is missing"):
        verify(tmp_path, "quick")


def compared_with(root: Path, scale: str, **more: Any) -> None:
    verify(root, scale, **{"tables": [root / "results/quick/tables/x.csv"]} | more)


MISTAKES: list[tuple[Callable[[Path], None], str]] = [
    *(
        (lambda root, column=column: verify(root, "quick", without(root, column)),
         rf"x\.csv: column '{column}' is missing \(give a table below")
        for column in ("metric", "baseline", "mean", "convention")
    ),
    *(
        (lambda root, given=(scale, more): compared_with(root, given[0], **given[1]),
         rf"--scale: scale '{scale}' is not in .* \(.*'?quick")
        for scale in ("qiuck", "../results/quick", "/tmp/x")
        for more in ({}, {"tables": [], "record": DEVICE})
    ),
    (lambda root: compared_with(root, "quick", out=root / "n.json"),
     r"--out .*n\.json: its summary has this place"),
    (lambda root: verify(root, "quick", record=" "), "--record: is empty"),
    (lambda root: verify(root / "one", "quick"), "no tables"),
    (lambda root: verify(root, "quick", seed=2), "results/quick-seed2/tables"),
    (lambda root: verify(root, "quick", record=DEVICE, seed=2), "--seed 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), MISTAKES, ids=[says for _, says in MISTAKES])
def test_what_cannot_be_compared_is_one_line(call: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    write(tmp_path, "x", {"metric": "mse"})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=says):
        call(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_every_number_says_how_it_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for metrics in (
        {"mse": 1.0, "psnr": 20.0, "ssim": 1.0, "old": 1.0},
        {"mse": 1.0, "psnr": 30.0, "ssim": 1.2, "new": 1.0},
    ):  # fmt: skip
        write(tmp_path, "x", *({"metric": name, "mean": mean} for name, mean in metrics.items()))
        if "old" in metrics:
            verify(tmp_path, "quick", record=DEVICE)
    verify(tmp_path, "quick", out=tmp_path / "verified.csv")
    rows = pd.read_csv(tmp_path / "verified.csv").set_index("metric")
    assert rows["status"].to_dict() == {
        "mse": "identical", "psnr": "different", "ssim": "within tolerance", "old": "missing", "new": "new",
    }  # fmt: skip
    assert rows.loc["psnr", "difference"] == 10
    assert rows.loc["psnr", "line"] == "dataset=d; attack=a"
    assert "dataset=d; attack=a; psnr: 30.0 (recorded 20.0)" in capsys.readouterr().out


def test_times_and_what_stands_for_no_attack_are_no_numbers(tmp_path: Path) -> None:
    mse, times = {"metric": "mse"}, {"metric": "seconds", "mean": 3.5}
    rows = [mse, mse | {"baseline": "random-noise"}, times]
    path = write(tmp_path, "x", *rows)
    assert _numbers([path])["metric"].tolist() == ["mse"]
    before = table_digest(path)
    write(tmp_path, "x", *rows[:2], rows[2] | {"mean": 4.5})
    assert table_digest(path) == before
    # A null baseline is no number of its own, but a byte of the table.
    write(tmp_path, "x", rows[0], rows[1] | {"mean": 4.5}, rows[2])
    assert table_digest(path) != before


def test_a_second_run_from_scratch_is_counted(tmp_path: Path) -> None:
    for tree, mean in (("one", 6.0), ("two", 7.0)):
        write(tmp_path / tree, "same", {"metric": "mse"})
        write(tmp_path / tree, "other", {"metric": "mse", "mean": mean})
    verify(tmp_path / "one", "quick", record=DEVICE, twin=tmp_path / "two")
    facts = json.loads((tmp_path / "one/reference/quick.json").read_text())
    assert facts["twice"] == {"tables": 2, "identical": 1}


def test_two_lines_of_one_name_are_compared_in_their_order(tmp_path: Path) -> None:
    path = write(tmp_path, "x", {"metric": "mse", "mean": 1.0}, {"metric": "mse", "mean": 2.0})
    assert compared(_numbers([path]), _numbers([path]))["status"].tolist() == ["identical"] * 2


def test_without_a_record_everything_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "x", {"metric": "mse"})
    verify(tmp_path, "quick", out=tmp_path / "verified.csv")
    assert "nothing is recorded of scale quick" in capsys.readouterr().out
    assert json.loads((tmp_path / "verified.json").read_text())["numbers"]["new"] == 1


def test_other_seeds_are_compared_with_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "x", {"metric": "mse"})
    verify(tmp_path, "quick", record=DEVICE)
    other = write(tmp_path, "x", {"metric": "mse", "mean": 9.0})
    capsys.readouterr()
    out = tmp_path / "verified.csv"
    verify(tmp_path, "quick", [other], out, seed=2)
    assert "every seed is raised by 2" in capsys.readouterr().out
    assert set(pd.read_csv(out)["status"]) == {"new"}
    summary = json.loads(out.with_suffix(".json").read_text())
    assert (summary["seed"], summary["numbers"]["different"], summary["recorded"]) == (2, 0, {})
