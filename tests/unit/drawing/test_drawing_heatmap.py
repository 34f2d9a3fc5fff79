"""The matrix: a square for each attack and defence."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from synthetic import crossed

from leakbench.drawing import heatmap
from leakbench.drawing.result import Result

ATTACKS, DEFENCES, VICTIMS = ["dlg", "invg", "grnn"], ["clip", "none"], ["lenet-dlg", "fcnn-relu"]


def test_every_pair_has_a_square_and_every_victim_a_map(result: Callable[..., Result]) -> None:
    maps = heatmap.matrix(result(crossed(ATTACKS, DEFENCES, VICTIMS))).subfigs[1].axes
    assert [axes.get_title("left").split(" · ")[1] for axes in maps] == ["DLG's LeNet", "FCNN, ReLU"]
    assert [text.get_text() for text in maps[0].get_yticklabels()] == ["DLG", "InvG", "GRNN"]
    # No defence comes first, and the names stand below the last map alone.
    assert [text.get_text() for text in maps[1].get_xticklabels()] == ["none", "clip"]
    shown = np.asarray(maps[0].images[0].get_array())
    assert shown.shape == (3, 2)
    assert shown[2] == pytest.approx([0.19, 0.2])


def test_a_pair_that_was_not_measured_is_an_empty_square(result: Callable[..., Result]) -> None:
    rows = crossed(ATTACKS, DEFENCES, VICTIMS[:1]).iloc[:-1]
    (axes,) = heatmap.matrix(result(rows)).subfigs[1].axes
    assert len(axes.texts) == 5
    assert np.isnan(np.asarray(axes.images[0].get_array(), float)[2]).any()


def test_a_new_attack_is_a_new_row(result: Callable[..., Result]) -> None:
    def rows(attacks: list[str]) -> int:
        axes = heatmap.matrix(result(crossed(attacks, DEFENCES, VICTIMS[:1]))).subfigs[1].axes[0]
        return len(axes.get_yticklabels())

    assert rows([*ATTACKS, "mine"]) == rows(ATTACKS) + 1


def test_what_an_attack_reads_of_features_is_in_italics(result: Callable[..., Result]) -> None:
    rows = crossed(ATTACKS[:2], DEFENCES, VICTIMS[:1])
    images = rows[rows["attack"] == "dlg"].assign(metric="psnr", mean=12.0)
    (axes,) = heatmap.matrix(result(pd.concat([rows, images]))).subfigs[1].axes
    assert [text.get_style() for text in axes.texts] == ["normal"] * 2 + ["italic"] * 2
