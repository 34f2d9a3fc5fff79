"""The price of defences: a line for each, and curves over rounds beside the undefended one."""

from collections.abc import Callable

import matplotlib as mpl
import pytest
from synthetic import prices

from leakbench.drawing import price
from leakbench.drawing.result import Result

DEFENCES = ["none", "gaussian", "gaussian-1e-2", "prune", "sign", "made-up"]


def axes_of(result: Result) -> list[mpl.axes.Axes]:
    return price.table(result).subfigs[1].axes


def test_every_defence_has_a_line_and_every_metric_an_axes(result: Callable[..., Result]) -> None:
    accuracy, sizes, labels, *_ = axes_of(result(prices(DEFENCES)))
    assert [text.get_text() for text in accuracy.get_yticklabels()] == [
        "no defence", "Gaussian noise of 1e-1", "Gaussian noise of 1e-2", "prune", "sign", "made up"
    ]  # fmt: skip
    # The last of three rounds alone is on the line.
    (own,) = accuracy.get_lines()
    assert list(own.get_xdata()) == pytest.approx([0.9 - 0.1 * n for n in range(6)])
    assert sizes.get_xscale() == "log"
    null, own = labels.get_lines()
    assert (set(null.get_xdata()), set(own.get_xdata())) == ({0.2}, {0.6})


def test_curves_of_a_kind_share_axes_and_all_show_the_undefended(result: Callable[..., Result]) -> None:
    curves = {axes.get_title(): axes for axes in axes_of(result(prices(DEFENCES)))[3:]}
    shown = {title: [line.get_label() for line in axes.get_lines()] for title, axes in curves.items()}
    assert shown == {
        "Gaussian noise": ["Gaussian noise of 1e-1", "Gaussian noise of 1e-2", "no defence"],
        "Laplacian noise": ["no defence"],
        "a part of the update": ["prune", "no defence"],
        "others": ["sign", "made up", "no defence"],
    }
    plain = curves["others"].get_lines()[-1]
    assert list(plain.get_xdata()) == [1, 2, 3]
    assert list(plain.get_ydata()) == pytest.approx([0.3, 0.6, 0.9])


def test_without_accuracy_there_are_no_curves(result: Callable[..., Result]) -> None:
    rows = prices(DEFENCES)
    assert len(axes_of(result(rows[rows["metric"] != "accuracy"]))) == 2


def test_conditions_that_differ_are_named(result: Callable[..., Result]) -> None:
    rows = prices(["none"]).assign(victim="w")
    both = result(prices(["none"]).merge(rows, how="outer"))
    names = [text.get_text() for text in axes_of(both)[0].get_yticklabels()]
    assert sorted(names) == ["no defence · v", "no defence · w"]


def test_without_results_a_figure_says_so(result: Callable[..., Result]) -> None:
    figure = price.table(result(absent_cells={"cell": "no MNIST"}))
    assert "Nothing to show: no MNIST" in "".join(t.get_text() for t in figure.findobj(mpl.text.Text))
