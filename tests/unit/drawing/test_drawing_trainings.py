"""Figures of training studies: what is printed beside what is measured, and a curve per defence and key."""

from collections.abc import Callable
from pathlib import Path

import pytest
from synthetic import trainings

from leakbench.drawing.printed_trainings import CONDITION, printed
from leakbench.drawing.result import Result
from leakbench.drawing.trainings import accuracies, curves

PUBLISHED = Path(__file__).parents[3] / "published"


def test_printed_accuracies_have_the_names_of_result_tables() -> None:
    frame = printed(PUBLISHED)
    # Table 5.1 has 44; Table 5.3 has 11 columns of three clients and a random key, and averages that are in Table 5.1 too.
    assert len(frame) == 44 + 11 * 4
    assert not frame.duplicated(CONDITION).any()

    def value(*condition: str) -> float:
        chosen = (frame[["dataset", "victim", "training", "defence", "key"]] == list(condition)).all(axis=1)
        return float(frame[chosen & frame["client"].isna()]["value"].iloc[0])

    assert value("cifar10", "resnet20-padded", "sgd-centralised", "none", "") == pytest.approx(0.9163)
    assert value("cifar100", "vgg16-batch-norm", "sgd-federated-224", "key-lock", "own") == pytest.approx(
        0.7306
    )
    assert value(
        "mnist-32", "lenet-dlg-running-norm", "sgd-federated", "key-lock", "random"
    ) == pytest.approx(0.1045)


def test_each_condition_has_its_point_and_printed_ones_a_star(result: Callable[..., Result]) -> None:
    figure = accuracies(result(trainings()), PUBLISHED)
    axes = figure.subfigs[1].axes[0]
    points, stars = axes.lines
    assert len(points.get_xdata()) == 8
    assert sum(x == x for x in stars.get_xdata()) == 6
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert "CIFAR-10 · ResNet-20 · client 1, own key" in labels


def test_a_curve_for_each_defence_and_key(result: Callable[..., Result]) -> None:
    figure = curves(result(trainings()))
    assert len(figure.subfigs[1].axes) == 4
    for axes in figure.subfigs[1].axes:
        assert {line.get_label() for line in axes.lines} >= {
            "no lock",
            "key-lock, own key",
            "key-lock, random key, initial lock",
        }


def test_without_results_the_figures_say_why(result: Callable[..., Result]) -> None:
    missing = result(absent_cells={"every study": "too long"})
    for figure in (accuracies(missing, PUBLISHED), curves(missing)):
        assert "too long" in figure.subfigs[1].texts[0].get_text().replace("\n", " ")
