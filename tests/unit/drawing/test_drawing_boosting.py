"""FedBoosting's figures: boundaries in the plane, and what clients weigh."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import plane, weighted

from leakbench.artefacts import write_tensors
from leakbench.drawing import words
from leakbench.drawing.boundaries import surfaces
from leakbench.drawing.client_weights import curves
from leakbench.drawing.result import Result, read_result

NAMES = ("gaussians-centralised", "gaussians-code")


def test_a_map_for_each_training_after_the_data_of_a_federation(result: Callable[..., Result]) -> None:
    tensors, about = plane(NAMES)
    given = replace(result(weighted(NAMES), boundaries=about), tensors=tensors)
    axes = surfaces(given).subfigs[1].axes
    titles = [each.get_title("left") for each in axes]
    assert titles == [
        "points of client 0", "points of client 1", "test points", "centralised\n88.0% right",
        "FedBoosting, code\n88.0% right, 10.0% apart",
    ]  # fmt: skip
    assert [len(each.images) for each in axes] == [0, 0, 0, 1, 1]
    np.testing.assert_array_equal(axes[3].images[0].get_array(), tensors["0/surface"])
    shown = np.concatenate([each.get_offsets() for each in axes[1].collections])
    assert sorted(shown[:, 0]) == pytest.approx(sorted(tensors["1/points/1"][:, 0]))
    assert all(each.get_xlim() == each.get_ylim() == (-3, 3) for each in axes)


def test_maps_of_several_seeds_name_theirs(result: Callable[..., Result]) -> None:
    tensors, about = plane(("gaussians-code", "gaussians-code"))
    about[1] |= {"seed": 3, "accuracy": 0.5}
    axes = surfaces(replace(result(weighted(NAMES), boundaries=about), tensors=tensors)).subfigs[1].axes
    assert [each.get_title("left").splitlines() for each in axes[3:]] == [
        ["FedBoosting, code, seed 0", "88.0% right, 0.0% apart"],
        ["FedBoosting, code, seed 3", "50.0% right, 10.0% apart"],
    ]


def test_the_exhibits_tensors_reach_the_figure(result: Callable[..., Result], tmp_path: Path) -> None:
    tensors, about = plane()
    result(weighted())
    exhibit = tmp_path / "exhibit.safetensors"
    write_tensors(exhibit, tensors, {"panels": [], "boundaries": about})
    table = str(tmp_path / "table.csv")
    given = read_result(table, str(exhibit), title="", scale="quick", published="")
    assert given.tensors.keys() == tensors.keys()
    assert len(surfaces(given).subfigs[1].axes) == 5


def test_a_curve_for_each_clients_weight_and_one_of_accuracy(result: Callable[..., Result]) -> None:
    figure = curves(result(weighted()))
    axes = figure.subfigs[1].axes
    assert len(axes) == 4
    for number in (0, 2):
        assert [line.get_label() for line in axes[number].lines] == ["client 0", "client 1", "client 2"]
        np.testing.assert_allclose(axes[number].lines[2].get_ydata(), np.array([3, 4, 5, 6]) / 15)
        np.testing.assert_allclose(axes[number + 1].lines[0].get_ydata(), [0.82, 0.84, 0.86, 0.88])


def test_without_results_the_figures_say_why(result: Callable[..., Result]) -> None:
    missing = result(absent_cells={"every study": "too long"})
    for figure in (surfaces(missing), curves(missing)):
        assert "too long" in figure.subfigs[1].texts[0].get_text().replace("\n", " ")


def test_trainings_have_words() -> None:
    assert words.training("gaussians-code-paillier") == "code, Paillier 2048"
    assert words.training("gaussians-poisoned-fedavg") == "FedAvg"
    assert words.training("sgd-federated-dirichlet") == "federated dirichlet"
