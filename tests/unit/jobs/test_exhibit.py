"""Which pictures an experiment shows, rule by rule, on guesses that are known."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from cell import STEM, Cell, make_cell, write_guesses

from leakbench.base.artefacts import read_table, read_tensors, write_table
from leakbench.base.errors import Altered
from leakbench.catalogue.cell import Cell as Parsed
from leakbench.catalogue.experiment import Exhibit
from leakbench.networks.layers import dense_input
from leakbench.networks.victims.file import load_victim
from leakbench.results.tables.pictures import panel_of


@pytest.fixture
def graded(tmp_path: Path) -> Cell:
    """One client with two samples, two rounds, five candidates: mixed, dead, noisy second, exact first,
    noise."""
    made = make_cell(tmp_path, np.zeros((2, 1, 5, 1, 8, 8)), np.zeros((2, 1, 5), bool), (2,))
    rng = np.random.default_rng(5)
    guess, usable = np.zeros((2, 1, 5, 1, 8, 8)), np.array([[[True, False, True, True, True]]] * 2)
    for turn in range(2):
        first, second = made.truth(0)[turn]
        guess[turn, 0, 0] = 0.7 * first + 0.3 * second
        guess[turn, 0, 2] = second + 0.02 * rng.random((1, 8, 8))
        guess[turn, 0, 3] = first
        guess[turn, 0, 4] = rng.random((1, 8, 8))
    write_guesses(made, guess, usable)
    made.score("pearson", "mse")
    return made


def show(cell: Cell, rule: str, **changes: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    shown = {"rule": rule, "rounds": 1, "reconstructions": 24} | changes
    scored = read_table(cell.scores)[0] if cell.scores.is_file() else pd.DataFrame()
    panel = panel_of(Parsed.parse(STEM), cell.files(), scored, Exhibit(**shown), 0)
    assert panel[0]["rule"] == rule
    return panel


@pytest.mark.parametrize(
    ("rule", "shown", "usable", "sample"),
    [
        ("first", [0, 1, 2, 3], [True, False, True, True], [0, -1, 1, 0]),
        ("usable", [0, 2, 3], [True] * 3, [0, 1, 0]),
        # By correlation with any sample.
        ("best", [3, 2, 0], [True] * 3, [0, 1, 0]),
        # The least pure that still reveal.
        ("faintest", [2, 3], [True] * 2, [1, 0]),
    ],
)
def test_a_rule_chooses_and_orders_reconstructions(
    rule: str, shown: list[int], usable: list[bool], sample: list[int], graded: Cell
) -> None:
    panel, tensors = show(graded, rule, reconstructions=5 if rule == "faintest" else len(shown))
    guess = read_tensors(graded.results / f"guesses/{STEM}.safetensors")[0]["images"][0, 0]
    assert np.array_equal(tensors["guess"], guess[shown])
    assert tensors["usable"].tolist() == usable
    assert tensors["sample"].tolist() == sample
    score = tensors["score"].tolist()
    assert score[shown.index(3)] == pytest.approx(1, abs=1e-5)
    assert rule != "best" or score == sorted(score, reverse=True)
    assert rule != "faintest" or min(score) >= 0.98
    assert rule != "first" or score[1] == pytest.approx(0, abs=1e-5)
    assert np.allclose(tensors["truth"], graded.truth(0)[0])
    assert (panel["target"], panel["local_samples"], panel["checkpoint"]) == ("images", 2, 30)


@pytest.mark.parametrize("rounds", [1, 2])
def test_matched_shows_each_sample_with_its_match(graded: Cell, rounds: int) -> None:
    _, tensors = show(graded, "matched", rounds=rounds)
    guess = read_tensors(graded.results / f"guesses/{STEM}.safetensors")[0]["images"][:, 0]
    assert len(tensors["guess"]) == 2 * rounds
    for turn in range(rounds):
        assert np.array_equal(tensors["guess"][2 * turn], guess[turn, 3])
        assert np.array_equal(tensors["guess"][2 * turn + 1], guess[turn, 2])
        assert np.allclose(tensors["truth"][2 * turn : 2 * turn + 2], graded.truth(0)[turn])
    assert tensors["usable"].all()
    assert tensors["score"][::2].tolist() == pytest.approx([1] * rounds, abs=1e-5)


def test_a_sample_without_a_match_is_shown_as_such(cell: Cell) -> None:
    cell.score("pearson")
    _, tensors = show(cell, "matched", rounds=3)
    assert tensors["usable"].tolist() == [True] * 4 + [False] * 2


def test_a_line_without_a_match_beside_them_changes_no_picture(graded: Cell) -> None:
    _, before = show(graded, "matched")
    rows, facts = read_table(graded.scores)
    certified = rows.iloc[:1].assign(baseline="certified", match=np.nan)
    write_table(graded.scores, pd.concat([rows, certified]), facts)
    _, after = show(graded, "matched")
    assert all(np.array_equal(after[name], value) for name, value in before.items())


def test_worst_median_and_best_are_samples_by_rank(graded: Cell) -> None:
    guess, _ = read_tensors(graded.results / f"guesses/{STEM}.safetensors")
    images = guess["images"].copy()
    # Round 1 reveals less: its exact copy becomes noise, so its first sample is the worst of the four.
    images[1, 0, 3] = images[1, 0, 0] = np.random.default_rng(6).random((1, 8, 8))
    write_guesses(graded, images, guess["usable"])
    rows, _ = graded.score("pearson")
    own = rows[rows["baseline"] == ""].sort_values("pearson")
    _, tensors = show(graded, "worst-median-best", rounds=2)
    assert tensors["score"].tolist() == pytest.approx(own["pearson"].iloc[[0, 2, 3]].tolist(), abs=1e-6)
    assert np.allclose(tensors["truth"], graded.pixels[own["image"].iloc[[0, 2, 3]]])
    assert own["round"].iloc[0] == 1
    for shown, (_, row) in zip(tensors["guess"], own.iloc[[0, 2, 3]].iterrows(), strict=True):
        assert np.array_equal(shown, images[row["round"], 0, row["match"]])


def test_features_are_shown_channel_by_channel_of_the_first_live_neuron(tmp_path: Path) -> None:
    made = make_cell(tmp_path, np.zeros((1, 1, 3, 32, 3, 3)), np.zeros((1, 1, 3), bool), (2,), "features")
    model, _ = load_victim(made.results / "victims/made/victim/0.safetensors")
    features = dense_input(model, torch.from_numpy(made.truth(0)[0])).numpy()
    guess = np.stack([np.zeros_like(features[0]), features[1], features[0]])[None, None]
    write_guesses(made, guess, np.array([[[False, True, True]]]), "features")
    panel, tensors = show(made, "first", reconstructions=24)
    assert panel["neuron"] == 1
    assert tensors["guess"].shape == (24, 1, 3, 3)
    assert np.array_equal(tensors["guess"][:, 0], features[1, :24].astype(np.float32))
    assert set(tensors["sample"]) == {1}
    assert tensors["usable"].all()
    varied = features[1, :24].reshape(24, -1).std(1) > 1e-6
    assert tensors["score"][varied].tolist() == pytest.approx([1] * varied.sum(), abs=1e-4)


@pytest.mark.parametrize("rule", ["first", "usable", "best", "faintest"])
def test_features_of_a_silent_update_are_shown_as_dead(tmp_path: Path, rule: str) -> None:
    made = make_cell(tmp_path, np.zeros((1, 1, 3, 32, 3, 3)), np.zeros((1, 1, 3), bool), (2,), "features")
    panel, tensors = show(made, rule, reconstructions=4)
    assert panel["neuron"] == 0
    assert not tensors["usable"].any()
    assert not tensors["guess"].any()
    assert tensors["sample"].tolist() == [-1] * 4


@pytest.mark.parametrize("kind", ["guesses", "truth", "data"])
def test_a_flipped_bit_in_what_is_shown_is_noticed(kind: str, graded: Cell) -> None:
    path = getattr(graded.files(), kind)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(Altered, match=rf"{path.name}: its bytes have sha256"):
        show(graded, "first")
