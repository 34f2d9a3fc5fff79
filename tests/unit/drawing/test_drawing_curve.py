"""Curves: how many, of which kind, on which axes, compared with what."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text
from synthetic import SIZES, curves

from leakbench.drawing import curve
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import save

VICTIMS = [f"fcnn-{a}{d}" for a in ("relu", "sigmoid", "tanh", "linear") for d in ("", "-dropout")]
Make = Callable[..., Result]


def axes_of(figure: Figure) -> list[Axes]:
    return [axes for part in figure.subfigs for axes in part.axes]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def drawn(axes: Axes) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {str(line.get_label()): line.get_data() for line in axes.lines}


def test_one_curve_for_each_victim_at_the_means_of_the_table(result: Make) -> None:
    rows = curves(VICTIMS)
    left, right = axes_of(curve.revealed_by_size(result(rows)))
    for axes, metric in ((left, "revealed"), (right, "revealed_fraction")):
        own = rows[
            (rows["metric"] == metric) & (rows["baseline"] == "") & (rows["victim"] == "fcnn-tanh-dropout")
        ]
        x, y = drawn(axes)["FCNN, tanh, dropout"]
        assert list(x) == list(SIZES)
        np.testing.assert_allclose(y, own["mean"])
        assert sum(label.startswith("FCNN") for label in drawn(axes)) == 8


def test_the_band_is_the_interval_of_the_table(result: Make) -> None:
    rows = curves(["fcnn-relu"])
    left = axes_of(curve.revealed_by_size(result(rows)))[0]
    own = rows[(rows["metric"] == "revealed") & (rows["baseline"] == "")]
    heights = left.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(own["ci_high"].max())
    assert heights.min() == pytest.approx(own["ci_low"].min())


def test_dropout_is_dashed_and_the_activation_keeps_its_colour() -> None:
    plain, dropout, other = (curve.look(v) for v in ("fcnn-relu", "cnn-relu-dropout", "fcnn-tanh"))
    assert plain["color"] == dropout["color"] != other["color"]
    assert plain["linestyle"] == "-" != dropout["linestyle"]
    assert plain["marker"] != other["marker"]


def test_axes_are_labelled_and_logarithmic_with_a_tick_for_each_size(result: Make) -> None:
    left, right = axes_of(curve.revealed_by_size(result(curves(VICTIMS))))
    assert left.get_xscale() == right.get_xscale() == "log"
    assert [label.get_text() for label in left.get_xticklabels()] == [str(size) for size in SIZES]
    assert "private samples" in left.get_xlabel()
    assert (left.get_ylabel(), right.get_ylabel()) == tuple(curve.AXES.values())


def test_the_limit_and_the_null_baseline_are_drawn(result: Make) -> None:
    left, right = axes_of(curve.revealed_by_size(result(curves(["fcnn-relu"]))))
    for axes, whole in ((left, SIZES), (right, [1.0] * 9)):
        limit = next(line for line in axes.lines if line.get_gid() == "everything")
        assert list(limit.get_ydata()) == list(whole)
        null = [line for line in axes.lines if line.get_marker() == "."]
        assert len(null) == 1
        assert list(null[0].get_ydata()) == [0.0] * 9


def test_the_published_point_stands_in_both_panels(result: Make) -> None:
    figure = curve.revealed_by_size(result(curves(VICTIMS)), published=[(30, 20)])
    for axes, y in zip(axes_of(figure), (20, 20 / 30), strict=True):
        stars = [line for line in axes.lines if line.get_marker() == "*"]
        assert [(*line.get_xdata(), *line.get_ydata()) for line in stars] == [(30, pytest.approx(y))]
        assert [text.get_text() for text in axes.texts] == ["published"]


def test_title_claim_scale_n_seed_and_threat_model_are_on_the_figure(result: Make) -> None:
    found = " ".join(texts(curve.revealed_by_size(result(curves(VICTIMS)))))
    for words in (
        "A title", "Claim: One sentence that the paper claims.", "Scale quick", "n = 200 updates", "null: 20",
        "seed 0", "honest-but-curious server; shared: model update", "labels: unknown",
    ):  # fmt: skip
        assert words in found


def test_training_has_epochs_on_the_axis_and_the_largest_set_only(result: Make) -> None:
    epochs = (0, 1, 5, 30)
    rows = curves(["fcnn-relu", "fcnn-relu-dropout"], epochs=epochs)
    left, _ = axes_of(curve.revealed_by_training(result(rows[rows["local_samples"] <= 30])))
    x, y = drawn(left)["FCNN, ReLU"]
    assert list(x) == list(epochs)
    assert np.all(np.diff(y) > 0)
    assert "of 30" in left.get_ylabel()
    assert [label.get_text() for label in left.get_xticklabels()] == ["0", "1", "5", "30"]
    assert -1 < left.get_xlim()[0] < 0


def test_readings_have_a_curve_each(result: Make) -> None:
    rows = curves(["fcnn-relu-dropout"], federations=("reveal", "reveal-moving"))
    left, _ = axes_of(curve.revealed_by_reading(result(rows)))
    names = [label for label in drawn(left) if label.startswith("FCNN")]
    assert names == ["FCNN, ReLU, dropout · reveal", "FCNN, ReLU, dropout · reveal-moving"]


@pytest.mark.parametrize(
    "draw", [curve.revealed_by_size, curve.revealed_by_reading, curve.revealed_by_training]
)
def test_an_empty_table_gives_a_figure_that_says_why(draw: Callable[[Result], Figure], result: Make) -> None:
    figure = draw(result(None, absent_cells={"cell": "data set mnist is not here"}))
    assert any("Nothing to show: data set mnist is not here" in text for text in texts(figure))


def test_nothing_is_written_outside_the_figure(result: Make) -> None:
    figure = curve.revealed_by_size(result(curves(VICTIMS)), published=[(30, 20)])
    width, height = figure.bbox.width, figure.bbox.height
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible():
            box = text.get_window_extent(renderer)
            assert box.x0 >= 0, text
            assert box.x1 <= width, text
            assert box.y0 >= -1, text
            assert box.y1 <= height, text


def test_the_same_table_gives_the_same_bytes(result: Make, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        save(curve.revealed_by_size(result(curves(VICTIMS[:2]))), str(tmp_path / name))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert imread(tmp_path / "a.png").shape[1] == 1530
