"""Errors during an attack: which axes there are, and which curves each has."""

from collections.abc import Callable

import matplotlib as mpl
import pytest
from synthetic import errors

from leakbench.drawing import during
from leakbench.drawing.result import Result


def axes_of(result: Result) -> dict[tuple[str, str], mpl.axes.Axes]:
    """Return the axes by title and metric."""
    metric, found = "", {}
    for axes in during.curves(result).subfigs[1].axes:
        metric = axes.get_ylabel() or metric
        found[axes.get_title(), metric] = axes
    return found


def labels(axes: mpl.axes.Axes) -> list[str]:
    return [str(each.get_label()) for each in axes.get_lines()]


def test_each_kind_of_noise_has_axes_with_the_undefended_beside_it(result: Callable[..., Result]) -> None:
    found = axes_of(result(errors(["none", "gaussian", "gaussian-1e-2", "laplacian"])))
    kinds = [f"MNIST at 32×32, {kind} noise" for kind in ("Gaussian", "Laplacian")]
    assert set(found) == {(kind, of) for kind in kinds for of in ("MSE of images", "MSE of gradients")}
    assert labels(found[kinds[0], "MSE of images"]) == [
        "DLG, no noise", "GRNN, no noise", "DLG, noise of 1e-1", "GRNN, noise of 1e-1",
        "DLG, noise of 1e-2", "GRNN, noise of 1e-2",
    ]  # fmt: skip
    assert labels(found[kinds[1], "MSE of images"]) == [
        "DLG, no noise", "GRNN, no noise", "DLG, noise of 1e-1", "GRNN, noise of 1e-1"
    ]  # fmt: skip
    strong = [each for axes in found.values() for each in axes.get_lines() if "1e-1" in str(each.get_label())]
    assert len({each.get_color() for each in strong}) == 1


def test_curves_run_over_the_share_of_an_attacks_own_steps(result: Callable[..., Result]) -> None:
    rows = errors(["none"], (1, 4))
    rows.loc[rows["attack"] == "dlg", "iterations"] /= 10
    found = axes_of(result(rows))
    assert {title for title, _ in found} == {"MNIST at 32×32, single images", "MNIST at 32×32, batches of 4"}
    for axes in found.values():
        assert labels(axes) == ["DLG", "GRNN"]
        for each in axes.get_lines():
            assert list(each.get_xdata()) == pytest.approx([1 / 3, 2 / 3, 1])
    dlg, grnn = found["MNIST at 32×32, batches of 4", "MSE of images"].get_lines()
    assert list(dlg.get_ydata()) == pytest.approx([0.3 + 3 * each for each in (0.5, 0.25, 0.125)])
    assert (dlg.get_linestyle(), grnn.get_linestyle()) == ("--", "-")


def test_without_results_a_figure_says_so(result: Callable[..., Result]) -> None:
    figure = during.curves(result(absent_cells={"cell": "no MNIST"}))
    assert "Nothing to show: no MNIST" in "".join(t.get_text() for t in figure.findobj(mpl.text.Text))
