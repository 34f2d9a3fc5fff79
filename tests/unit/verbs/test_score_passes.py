"""Scores and tables of a client that went over its images in two passes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cell import ORIGIN, STEM, Cell, make_cell, tabled

from leakbench.base.artefacts import read_tensors, write_tensors
from leakbench.results.tables.attacked import CONDITION

PASSES = np.array([0, 0, 1, 1])
# Of the one client's four rounds of two images, the second pass has the first one's in another order.
INDEX = np.array([[3, 4], [5, 6], [6, 3], [4, 5]])
PARTNERS = {
    "partner": [[-1, -1], [-1, -1], [3, 0], [1, 2]],
    "partner_plain": [[-1, -1], [-1, -1], [3, 1], [-1, 2]],
}
METRICS = ["pearson", "matching_success", "matching_success_plain", "matching_success_no_labels"]


@pytest.fixture
def scored(tmp_path: Path) -> pd.DataFrame:
    cell = make_cell(tmp_path, np.zeros((4, 1, 2, 1, 8, 8)), np.ones((4, 1, 2), bool), ks=(2,))
    path = cell.results / f"truth/{ORIGIN}.safetensors"
    tensors, facts = read_tensors(path)
    write_tensors(path, tensors | {"images/0": INDEX, "pass": PASSES}, facts)
    path = cell.results / f"guesses/{STEM}.safetensors"
    tensors, facts = read_tensors(path)
    guess = {"images": cell.pixels[INDEX][:, None]}
    # The last round's candidates stand the other way round.
    guess["images"][3] = guess["images"][3, :, ::-1].copy()
    partners = {name: np.array(rows)[:, None] for name, rows in PARTNERS.items()}
    for rows in partners.values():
        rows[3] = rows[3, :, ::-1].copy()
    write_tensors(path, tensors | guess | partners, facts)
    return cell.score(*METRICS, matching="hungarian")[0]


def test_each_way_of_matching_is_a_column(scored: pd.DataFrame) -> None:
    own = scored[scored["baseline"] == ""]
    assert own["pass"].tolist() == PASSES.repeat(2).tolist()
    assert own["matching_success"][:4].isna().all()
    assert own["matching_success"][4:].tolist() == [1, 1, 1, 1]
    assert own["matching_success_plain"][4:].tolist() == [1, 0, 0, 1]
    assert "matching_success_no_labels" not in scored
    assert scored.loc[scored["baseline"] != "", "matching_success"].isna().all()


def test_an_attack_without_partners_has_no_such_column(cell: Cell) -> None:
    rows, _ = cell.score("pearson")
    assert not [name for name in rows if name.startswith("matching_success")]
    assert (rows["pass"] == 0).all()


def test_a_table_tells_passes_apart_where_there_are_several(scored: pd.DataFrame) -> None:
    lines = tabled(scored, METRICS)
    assert list(lines.columns[: len(CONDITION) + 1]) == [*CONDITION, "pass"]
    success = lines[lines["metric"].str.startswith("matching_success")].set_index("metric")
    assert success["pass"].tolist() == [1, 1]
    assert success["mean"].to_dict() == {"matching_success": 1.0, "matching_success_plain": 0.5}
    assert success["n"].tolist() == [4, 4]
    only = tabled(scored[scored["pass"] == 1], METRICS)
    assert "pass" not in only
