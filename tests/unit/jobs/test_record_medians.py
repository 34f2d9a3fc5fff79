"""The pictures that `leakbench record` keeps: of the strongest attacks, at the median of their trials."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cell import ORIGIN, STEM, Cell, known_guesses, make_cell, make_table

from leakbench.base.artefacts import read_table, read_tensors, write_table
from leakbench.base.errors import Altered
from leakbench.results.report.leaks import strongest
from leakbench.results.report.section import address, with_pictures
from leakbench.results.tables.median import medians

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
