"""`leakbench record`: raised seeds in a folder of their own, exhibits, and medians."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cell import ORIGIN, SHARES, STEM, Cell, known_guesses, make_cell, make_table

from leakbench.base.artefacts import read_facts, read_table, read_tensors, write_table, write_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.base.whole import file_digest
from leakbench.catalogue.cell import Cell as Named
from leakbench.catalogue.resolve import Plan
from leakbench.jobs import record as module
from leakbench.jobs.record import record
from leakbench.papers.reference import EXHIBIT, files, run_of
from leakbench.results.figures.result import _panels
from leakbench.results.report.leaks import strongest
from leakbench.results.report.section import address, with_pictures
from leakbench.results.tables.median import medians


def kept(root: Path) -> dict[str, Any]:
    return dict(json.loads((root / "reference/quick/x.json").read_text()))


@pytest.fixture
def finished(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout in which experiment x has run with its own seeds and with raised ones."""
    cell.score("mse")
    make_table(cell, [STEM], [cell.scores], metrics=["mse"])
    for run in ("quick", "quick-seed1"):
        for folder, suffix in (("tables", "csv"), ("trials", "parquet"), ("exhibits", "safetensors")):
            made = next(path for path in cell.results.rglob(f"x*.{suffix}"))
            (cell.root / "results" / run / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(made, cell.root / "results" / run / folder / f"x.{suffix}")
    asked = Plan("quick", {"x": []}, {}, {"table/x": {"shares": SHARES}}, {"x": []})
    monkeypatch.setattr(module, "planned", lambda *given: asked)
    monkeypatch.setattr(module, "specs_digest", lambda *given: "same")
    monkeypatch.setattr(module, "numerics_of", lambda *given: {"peel": 2})
    monkeypatch.setattr(module, "resting_on_headlines", lambda *given: ["x"])
    monkeypatch.setattr(module, "read_papers", lambda *given: [])
    return cell.root


def attacked(keep: bool) -> Plan:
    """Return the plan of experiment x with its cell. `keep` says whether updates and guesses stay on disk."""
    cell = Named(*STEM.split("/")[:-1], 0)
    specs = {"table/x": {"shares": SHARES}, f"capture/{cell.capture}": {"federation": {"keep": keep}}}
    return Plan("quick", {"x": [cell]}, {}, specs, {"x": []})


def test_raised_seeds_lie_apart_and_beside_the_own(finished: Path) -> None:
    record(finished, "quick", "x")
    record(finished, "quick", "x", seed=1)
    assert [path.parent.name for path in files(finished, "x")] == ["quick"] * 3
    seeded = files(finished, "x", seeded=True)
    assert {run_of(path.parent.name) for path in seeded} == {("quick", 1)}
    made = json.loads(seeded[1].read_text())
    assert made["command"] == (
        "snakemake --cores 2 results/quick-seed1/tables/x.csv --config scale=quick seed=1 only=x"
    )


def test_a_record_names_the_attacks_gpu(finished: Path, cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table may be made on another machine than the guesses that it sums up."""
    guess = cell.results / f"guesses/{STEM}.safetensors"
    tensors, facts = read_tensors(guess)
    asked = attacked(keep=True)
    monkeypatch.setattr(module, "planned", lambda *given: asked)
    record(finished, "quick", "x")
    assert kept(finished)["device"].startswith("cpu: ")
    assert "device=" not in kept(finished)["command"]
    write_tensors(guess, dict(tensors), facts | {"device": "Some GPU", "versions": {"torch": "1.0"}})
    record(finished, "quick", "x")
    made = kept(finished)
    assert (made["device"], made["versions"]) == ("Some GPU", {"torch": "1.0"})
    assert made["command"].endswith(" only=x device=cuda")
    # A cell that is absent was made by nothing.
    write_tensors(guess, {}, {"absent": "nobody has the data"})
    record(finished, "quick", "x")
    assert kept(finished)["device"].startswith("cpu: ")


def test_guesses_on_updates_that_are_not_kept_are_gone_when_their_table_is_recorded(
    finished: Path, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell.results / f"guesses/{STEM}.safetensors").unlink()
    monkeypatch.setattr(module, "planned", lambda *given: attacked(keep=False))
    record(finished, "quick", "x")
    assert kept(finished)["device"].startswith("cpu: ")
    assert kept(finished)["versions"] == read_table(cell.scores)[1]["versions"]
    monkeypatch.setattr(module, "planned", lambda *given: attacked(keep=True))
    with pytest.raises(UserError, match=r"guesses/.*no such file"):
        record(finished, "quick", "x")


def test_headlines_are_recorded_once(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(finished, "quick", headlines=True)
    record(finished, "quick", seed=1, headlines=True, targets=True)
    assert capsys.readouterr().out == "results/quick-seed1/tables/x.csv\n"
    record(finished, "quick", seed=1, headlines=True)
    record(finished, "quick", seed=1, headlines=True, targets=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        *(
            ({"experiment": "y", "targets": each}, r"^no experiment 'y' \(there are: x\)")
            for each in (True, False)
        ),
        ({"experiment": "x", "headlines": True}, "name one experiment, or give --headlines alone"),
        ({}, "name one experiment, or give --headlines alone"),
        ({"experiment": "x", "seed": 1}, r"quick/x\.csv: not recorded, so --seed 1 has nothing beside it"),
    ],
)
def test_what_cannot_be_recorded_is_one_line(asked: dict[str, Any], says: str, finished: Path) -> None:
    with pytest.raises(UserError, match=says):
        record(finished, "quick", **asked)


def test_a_fault_before_copying_changes_nothing(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(finished, "quick", "x")
    before = {path: path.read_bytes() for path in files(finished, "x")}

    def broken(*given: object) -> None:
        raise KeyError("match")

    monkeypatch.setattr(module, "medians", broken)
    with pytest.raises(KeyError):
        record(finished, "quick", "x")
    assert {path: path.read_bytes() for path in files(finished, "x")} == before


def test_a_fault_while_copying_leaves_no_record(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(finished, "quick", "x")

    def full(source: Path, target: Path) -> None:
        if target.suffix == ".csv":
            raise OSError(28, "No space left on device")
        target.write_bytes(source.read_bytes())

    monkeypatch.setattr(module.shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        record(finished, "quick", "x")
    assert {path.suffix for path in files(finished, "x")} == set()
    assert not (finished / "reference/quick/x.json").exists()


def test_a_small_exhibit_is_kept(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exhibit = finished / "results/quick/exhibits/x.safetensors"
    write_tensors(exhibit, {"0/surface": np.zeros(9)}, read_facts(exhibit))
    record(finished, "quick", "x")
    beside = finished / "reference/quick" / f"x{EXHIBIT}"
    assert beside.read_bytes() == exhibit.read_bytes()
    assert kept(finished)["files"][EXHIBIT] == file_digest(beside)
    monkeypatch.setattr(module, "LARGEST", 10)
    record(finished, "quick", "x")
    assert not beside.exists()


def test_a_large_exhibit_is_kept_in_8_bits(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exhibit = finished / "results/quick/exhibits/x.safetensors"
    images = np.random.default_rng(0).random((2, 3, 32, 32), dtype=np.float32)
    own = {"truth": images, "guess": images[::-1] * 3 - 1, "usable": np.ones(2, bool)}
    own |= {"sample": np.arange(2), "score": np.ones(2, np.float32)}
    tensors = {f"0/{name}": value for name, value in own.items()}
    write_tensors(exhibit, tensors, read_facts(exhibit) | {"panels": [{}]})
    monkeypatch.setattr(module, "LARGEST", exhibit.stat().st_size - 1)
    record(finished, "quick", "x")
    beside = finished / "reference/quick" / f"x{EXHIBIT}"
    (panel,), (shown,) = (_panels("x", *read_tensors(path)) for path in (exhibit, beside))
    assert beside.stat().st_size < exhibit.stat().st_size - 3 * images.size + 2000
    np.testing.assert_allclose(shown.truth, panel.truth, atol=0.5001 / 255)
    assert shown.truth.dtype == np.float32
    # What leaves [0, 1] is stretched when it is drawn, and stays as it is.
    np.testing.assert_array_equal(shown.guess, panel.guess)


CELL = STEM.rpartition("/")[0]


@pytest.fixture
def graded(tmp_path: Path) -> Cell:
    """Return a scored cell whose first client has six trials, of which guesses are known."""
    empty = make_cell(tmp_path, np.zeros((3, 2, 4, 1, 8, 8)), np.zeros((3, 2, 4), bool))
    made = make_cell(tmp_path, *known_guesses(empty))
    made.score("pearson", "mse")
    return made


def test_the_picture_is_of_the_trial_at_the_median(graded: Cell) -> None:
    rows = make_table(graded, [STEM], [graded.scores], client=0).lines
    best = strongest(rows, {})
    assert best[["attack", "metric", "client"]].values.tolist() == [["attack", "pearson", 0]]
    ((cell, pair),) = medians(graded.root, "quick", best, [STEM]).items()
    assert cell == CELL
    scored, _ = read_table(graded.scores)
    own = scored[(scored["baseline"] == "") & (scored["client"] == 0)].sort_values("pearson", kind="stable")
    middle = own.iloc[len(own) // 2]
    guess, _ = read_tensors(graded.results / f"guesses/{STEM}.safetensors")
    shown = [graded.pixels[middle["image"]], guess["images"][middle["round"], 0, middle["match"]]]
    for picture, image in zip(pair, shown, strict=True):
        assert np.array_equal(picture, np.rint(255 * image.clip(0, 1)).astype(np.uint8).transpose(1, 2, 0))


def test_what_the_median_trial_did_not_reconstruct_or_nobody_kept_has_no_picture(graded: Cell) -> None:
    best = strongest(make_table(graded, [STEM], [graded.scores], client=0).lines, {})
    rows, facts = read_table(graded.scores)
    write_table(graded.scores, rows.assign(match=-1), facts)
    assert medians(graded.root, "quick", best, [STEM]) == {}
    write_table(graded.scores, rows, facts)
    (graded.results / f"truth/{ORIGIN}.safetensors").unlink()
    assert medians(graded.root, "quick", best, [STEM]) == {}
    assert medians(graded.root, "quick", best, []) == {}


@pytest.mark.parametrize("name", [f"guesses/{STEM}", f"truth/{ORIGIN}", "../../data/made"])
def test_a_flipped_bit_in_what_the_picture_is_taken_from_is_noticed(name: str, graded: Cell) -> None:
    best = strongest(make_table(graded, [STEM], [graded.scores], client=0).lines, {})
    path = graded.results / f"{name}.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Altered, match=rf"{path.name}: its bytes have sha256"):
        medians(graded.root, "quick", best, [STEM])


def test_a_row_of_the_recorded_scale_shows_the_picture(graded: Cell) -> None:
    rows = make_table(graded, [STEM], [graded.scores], client=0).lines
    pair = np.zeros((2, 8, 8, 1), np.uint8)
    pair[1] = 255
    shown = with_pictures(rows, {("quick", CELL): pair})
    assert set(shown["picture"]) == {address(pair)}
    assert address(pair).startswith("data:image/webp;base64,")
    assert set(with_pictures(rows, {("standard", CELL): pair})["picture"]) == {""}
    assert "picture" not in with_pictures(pd.DataFrame(), {})


def test_a_table_of_trainings_has_no_picture(tmp_path: Path) -> None:
    line = {"dataset": "d", "victim": "v", "training": "t", "defence": "none", "metric": "accuracy", "n": 10}
    best = strongest(pd.DataFrame([line | {"baseline": "", "mean": 0.9}]), {})
    assert medians(tmp_path, "quick", best, ["d/v/t/none/0"]) == {}
