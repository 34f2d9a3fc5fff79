"""A record gets new lines for the cells whose numerics have changed, and keeps its other lines."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cell import ORIGIN, STEM, Cell, make_table
from recording import record_table

from leakbench.base.artefacts import open_tensors, read_table, read_tensors, write_table, write_tensors
from leakbench.base.errors import UserError
from leakbench.jobs import again
from leakbench.jobs import renew as module
from leakbench.jobs.record import outdated
from leakbench.jobs.renew import renew
from leakbench.papers.reference import kept_digests, read_record
from leakbench.results.tables.lines import Lines, of_seeds

OTHER = STEM.replace("/attack/", "/zero/")
METRICS = ["mse", "pearson"]


def folder_of(cell: Cell) -> Path:
    return cell.root / "reference/quick"


@pytest.fixture
def recorded(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Record a table of two attacks, and return the numerics of today of the second, which a test may
    raise."""
    shutil.copytree(*((cell.results / f"guesses/{stem}").parent for stem in (STEM, OTHER)))
    knows = {STEM: {}, OTHER: {"labels": "guessed"}}
    _, today = record_table(cell, [STEM, OTHER], METRICS, module, monkeypatch, knows=knows)
    monkeypatch.setattr(again, "modules_of", lambda asked, names: {n for n in names if "/zero/" in n})
    monkeypatch.setattr(again, "numerics", lambda modules: today if modules else {})
    monkeypatch.setattr(module, "numerics", lambda modules: {})
    return today


def better(cell: Cell) -> None:
    """Let today's code give other guesses for the second cell."""
    path = cell.results / f"guesses/{OTHER}.safetensors"
    tensors, facts = open_tensors(path)
    changed = {name: value * 0.5 if name == "images" else value for name, value in tensors.items()}
    write_tensors(path, changed, facts)


def lines(cell: Cell) -> pd.DataFrame:
    return pd.read_csv(folder_of(cell) / "x.csv", dtype=str, keep_default_na=False)


def test_changed_cells_get_new_lines_and_others_keep_theirs(cell: Cell, recorded: dict[str, int]) -> None:
    recorded["zero"] = 2
    before, first = lines(cell), read_table(folder_of(cell) / "x.parquet")[0]
    better(cell)
    renew(cell.root, "x", "quick")
    after, (trials, facts) = lines(cell), read_table(folder_of(cell) / "x.parquet")
    old, new = before["attack"] == "attack", after["attack"] == "attack"
    pd.testing.assert_frame_equal(before[old].reset_index(drop=True), after[new].reset_index(drop=True))
    assert facts["made"] == "first"
    own = trials["attack"] == "attack"
    assert (trials[own]["value"].to_numpy() == first[first["attack"] == "attack"]["value"].to_numpy()).all()
    # A trial names the line that it stands behind.
    for row in trials.itertuples():
        line = after.iloc[row.line]
        assert (line["attack"], line["metric"], line["baseline"]) == (row.attack, row.metric, row.baseline)
    images = (trials["baseline"] == "") & (trials["metric"] == "mse")
    means = trials[images & ~own].groupby("line", observed=True)["value"].mean()
    assert [f"{value:.6g}" for value in means] == list(after.iloc[means.index]["mean"])
    errors = (frame[(frame["attack"] == "zero") & (frame["metric"] == "mse")] for frame in (before, after))
    assert len({tuple(each["mean"]) for each in errors}) == 2
    made = read_record(folder_of(cell) / "x.csv")
    (again,) = made["renewed"]
    assert (again["cells"], again["commit"]) == ([OTHER], "now")
    assert (made["commit"], made["date"], made["numerics"]) == ("abc", "2026-01-01", {"zero": 2})
    assert outdated(cell.root, "quick", "x", made) == ""


def test_a_renewed_record_is_the_table_that_a_whole_run_makes(cell: Cell, recorded: dict[str, int]) -> None:
    recorded["zero"] = 2
    before, trials = (folder_of(cell) / "x.csv").read_bytes(), read_table(folder_of(cell) / "x.parquet")[0]
    renew(cell.root, "x", "quick")
    assert (folder_of(cell) / "x.csv").read_bytes() == before
    pd.testing.assert_frame_equal(read_table(folder_of(cell) / "x.parquet")[0], trials)


def test_inputs_are_listed(cell: Cell, recorded: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    recorded["zero"] = 2
    renew(cell.root, "x", "quick", targets=True)
    only, *files = capsys.readouterr().out.split()
    assert only == "only=x"
    assert set(files) == {
        f"results/quick/guesses/{OTHER}.safetensors", f"results/quick/records/attack/{OTHER}.json",
        f"results/quick/truth/{ORIGIN}.safetensors", "results/quick/victims/made/victim/0.safetensors",
        "data/made.safetensors",
    }  # fmt: skip


def test_pictures_of_renewed_cells_are_new_and_others_stay(cell: Cell, recorded: dict[str, int]) -> None:
    recorded["zero"] = 2
    shown = {"reconstructions": 2, "rounds": 1, "rule": "best"}
    module.planned(cell.root, "quick").specs["table/x"]["experiment"]["exhibit"] = shown
    whole = make_table(cell, [STEM, OTHER], [cell.scores], metrics=METRICS, exhibit=shown)
    path = folder_of(cell) / "x.exhibit.safetensors"
    write_tensors(path, whole.tensors, whole.facts)
    tell(cell, files=kept_digests(folder_of(cell) / "x.csv"))
    better(cell)
    renew(cell.root, "x", "quick")
    tensors, facts = read_tensors(path)
    assert [panel["attack"] for panel in facts["panels"]] == ["attack", "zero"]
    np.testing.assert_array_equal(tensors["0/guess"], whole.tensors["0/guess"])
    np.testing.assert_array_equal(tensors["1/truth"], whole.tensors["1/truth"])
    np.testing.assert_allclose(tensors["1/guess"], whole.tensors["1/guess"] / 2)
    assert set(tensors) == set(whole.tensors)


def study_lines(accuracy: dict[str, list[float]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table of studies of two defences and the trials behind it, one accuracy for each seed."""
    lines = Lines("quick")
    beside = {"client": np.nan, "key": "", "tested": "t", "baseline": "", "round": np.nan}
    for defence, values in accuracy.items():
        condition = {"dataset": "d", "victim": "v", "training": "t", "defence": defence} | beside
        seeds, name = pd.DataFrame({"seed": range(len(values))}), ("accuracy", "standard")
        lines.add(condition, name, np.array(values), of_seeds(seeds), "run", seeds["seed"])
    return pd.DataFrame(lines.lines), lines.trials()


def test_a_study_takes_the_place_of_its_recorded_lines(tmp_path: Path) -> None:
    old, trials = study_lines({"clip": [0.1, 0.2], "none": [0.5, 0.6], "prune": [0.3, 0.4]})
    table = tmp_path / "x.csv"
    table.write_text(old.to_csv(index=False, float_format="%.6g"))
    write_table(tmp_path / "x.parquet", trials, {})
    new = study_lines({"none": [0.7, 0.8]})
    text, after = module._spliced(table, *new, {"d/v/t/none"})
    whole, expected = study_lines({"clip": [0.1, 0.2], "none": [0.7, 0.8], "prune": [0.3, 0.4]})
    assert text == whole.to_csv(index=False, float_format="%.6g")
    pd.testing.assert_frame_equal(after, expected)


def tell(cell: Cell, **facts: object) -> None:
    made = json.loads((folder_of(cell) / "x.json").read_text())
    (folder_of(cell) / "x.json").write_text(json.dumps(made | facts))


# What happens to guesses or record, today's numerics, and what is told.
FAULTS: list[tuple[Callable[[Cell, Path], object], int, str]] = [
    (lambda cell, guesses: guesses.unlink(), 2, r"0\.safetensors: missing \(run `make renew ONLY=x`"),
    (lambda cell, guesses: write_tensors(guesses, {}, {"absent": "no layer"}), 2,
     rf"x\.json: {OTHER}: is absent today"),
    (lambda cell, guesses: tell(cell, specs="other"), 2, r"x\.json: recorded with other settings \(run it"),
    (lambda cell, guesses: tell(cell, numerics={"zero": 2}), 1,
     r"measured with numerics 2 of zero, today's is 1 \(run it"),
    (lambda cell, guesses: None, 1, r"x\.json: is valid today \(nothing is to be renewed\)"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "version", "told"), FAULTS, ids=[told for *_, told in FAULTS])
def test_a_record_that_cells_alone_do_not_mend_is_refused_and_stays(
    cell: Cell, recorded: dict[str, int], fault: Callable[[Cell, Path], object], version: int, told: str
) -> None:
    recorded |= {"zero": version} if version > 1 else {}
    fault(cell, cell.results / f"guesses/{OTHER}.safetensors")
    before = {path.name: path.read_bytes() for path in folder_of(cell).iterdir()}
    with pytest.raises(UserError, match=told):
        renew(cell.root, "x", "quick")
    assert {path.name: path.read_bytes() for path in folder_of(cell).iterdir()} == before
