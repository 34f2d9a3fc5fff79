"""Conventions of PSNR and success rates: each value in its column, published numbers where they are read."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from synthetic import decibels, successes

from leakbench.drawing import conventions, success
from leakbench.drawing.result import Result

PUBLISHED = Path(__file__).parents[3] / "published"
Make = Callable[..., Result]


def body(figure: Figure) -> list[Axes]:
    return figure.subfigs[1].axes


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(mpl.text.Text))


def of(axes: Axes, label: str) -> list[Line2D]:
    return [line for line in axes.get_lines() if line.get_label() == label]


def test_each_convention_has_its_column(result: Make) -> None:
    figure = conventions.figure(result(decibels(["mnist-32", "cifar10"])), PUBLISHED)
    mnist, cifar = body(figure)
    assert [label.get_text().replace("\n", " ") for label in mnist.get_xticklabels()] == [
        "true PSNR", "RMSE in place of MSE", "8-bit wrap-around",
    ]  # fmt: skip
    points = {
        round(float(line.get_xdata()[0])): float(line.get_ydata()[0]) for line in of(cifar, "DLG, converged")
    }
    assert points == {0: 17.0, 1: pytest.approx((17 + 48.13) / 2), 2: 27.9}
    assert of(cifar, "two unrelated images")[0].get_ydata()[0] == 9.0
    assert "n = 10 reconstructions after 1000 iterations, 10 unrelated pairs" in texts(figure)


def test_printed_numbers_are_stars_in_the_column_that_they_are_read_in(result: Make) -> None:
    mnist, cifar = body(conventions.figure(result(decibels(["mnist-32", "cifar10"])), PUBLISHED))
    for axes, values in (
        (mnist, [30.81, 37.27, 38.67, 53.67, 56.61]),
        (cifar, [27.93, 28.75, 29.57, 33.81, 47.03, 49.05]),
    ):
        stars = of(axes, "printed")
        assert sorted(float(star.get_ydata()[0]) for star in stars) == values
        assert all(1.5 < star.get_xdata()[0] < 2.5 for star in stars)
    assert mnist.get_title() == "MNIST at 32×32"
    assert cifar.get_title() == "CIFAR-10 (stars: CIFAR-100)"


def test_a_set_that_is_there_keeps_its_stars_to_itself(result: Make) -> None:
    axes = body(conventions.figure(result(decibels(["cifar10", "cifar100"])), PUBLISHED))
    assert [bool(of(each, "printed")) for each in axes] == [False, True]


def test_an_infinite_mean_stays_on_the_sheet(result: Make) -> None:
    rows = decibels(["mnist-32"])
    rows.loc[(rows["attack"] == "dlg") & (rows["metric"] == "psnr"), ["mean", "ci_high"]] = np.inf
    (axes,) = body(conventions.figure(result(rows), PUBLISHED))
    heights = [float(line.get_ydata()[0]) for line in of(axes, "DLG, untrained")]
    assert heights[0] == 60
    assert axes.get_ylim()[1] > 60


def test_a_curve_for_each_batch_and_method(result: Make) -> None:
    figure = success.curves(result(successes(["cifar100", "cifar10"])), PUBLISHED)
    axes = body(figure)
    assert len(axes) == 6
    for each in axes:
        lines = {line.get_label(): line for line in each.get_lines()}
        assert {"grnn 1", "grnn 4", "dlg 1", "dlg 4", "random noise"} <= set(lines)
        assert lines["grnn 4"].get_linestyle() == "-"
        assert lines["dlg 4"].get_linestyle() != "-"
        assert lines["dlg 4"].get_color() == lines["grnn 4"].get_color() != lines["grnn 1"].get_color()
        assert list(lines["dlg 1"].get_xdata()) == [step / 20 for step in range(21)]
    stars = [[(*line.get_xdata(), *line.get_ydata()) for line in of(each, "printed")] for each in axes]
    # What the text reads off CIFAR-100's curves: of MSE at a rate of 0.6, of SSIM at a threshold of 0.2.
    assert stars == [[(0.05, 0.6), (0.17, 0.6)], [], [(0.2, 0.7), (0.2, 0.77)], [], [], []]


@pytest.mark.parametrize("draw", [conventions.figure, success.curves])
def test_without_results_a_figure_says_so(draw: Callable[[Result, Path], Figure], result: Make) -> None:
    figure = draw(result(absent_cells={"cell": "no CIFAR-100"}), PUBLISHED)
    assert "Nothing to show: no CIFAR-100" in texts(figure)
