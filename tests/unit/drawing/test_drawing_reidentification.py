"""Whom classifiers see: points where the table has them, lines for the images themselves and for chance."""

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from synthetic import identified_faces, panel

from leakbench.drawing import reidentification
from leakbench.drawing.result import Result


def axes_of(figure: Figure) -> dict[str, Any]:
    """Return the axes by their count."""
    return {axes.get_xlabel().partition(":")[0]: axes for axes in figure.subfigs[1].axes if axes.get_xlabel()}


def at(axes: Any, label: str) -> list[float]:
    return next(list(line.get_xdata()) for line in axes.get_lines() if line.get_label() == label)


def test_points_and_lines_stand_where_the_table_has_them(result: Callable[..., Result]) -> None:
    rows = identified_faces()
    found = axes_of(reidentification.rates(result(rows, classes={"orl-32": 40})))
    assert list(found) == ["top-1", "top-3", "top-5"]
    own = rows[(rows["baseline"] == "") & (rows["metric"] == "top3_resnet18")]
    assert at(found["top-3"], "ResNet-18") == pytest.approx(own["mean"].tolist())
    for count, axes in zip((1, 3, 5), found.values(), strict=True):
        assert at(axes, "chance") == [count / 40] * 2
    assert at(found["top-1"], "ResNet-18, the images trained on") == pytest.approx([0.95] * 2)
    assert at(found["top-1"], "DenseNet-121, the images held out") == pytest.approx([0.9] * 2)
    labels = [text.get_text() for text in found["top-1"].get_yticklabels()]
    assert labels == [
        "DLG, batch 1",
        "GRNN, batch 1",
        *(f"{a}, batch 1, held-out faces" for a in ("DLG", "GRNN")),
        "GRNN, batch 4",
    ]


def test_means_of_images_weigh_by_their_number(result: Callable[..., Result]) -> None:
    rows = identified_faces()
    rows.loc[
        (rows["baseline"] == "original") & (rows["federation"] == "grnn-faces-batch4"), ["mean", "n"]
    ] = 0.5, 240
    axes = axes_of(reidentification.rates(result(rows)))["top-1"]
    # Twice 80 images at 0.95 and 240 at a half.
    assert at(axes, "ResNet-18, the images trained on") == pytest.approx([(160 * 0.95 + 240 * 0.5) / 400] * 2)


def test_without_a_number_of_people_no_chance_is_drawn(result: Callable[..., Result]) -> None:
    axes = axes_of(reidentification.rates(result(identified_faces())))["top-1"]
    assert "chance" not in [line.get_label() for line in axes.get_lines()]


def test_faces_of_single_images_stand_below(result: Callable[..., Result]) -> None:
    panels = [
        panel(number, "cifar10", 2, 2, "matched", dead=(1,) if number == 1 else ()) for number in range(4)
    ]
    for (about, _), attack, kind, size in zip(
        panels, ("dlg", "grnn", "grnn", "grnn"), ("", "", "-held-out", "-batch4"), (1, 1, 1, 4), strict=True
    ):
        about |= {
            "dataset": "orl-32",
            "attack": attack,
            "federation": f"grnn-faces{kind}",
            "local_samples": size,
        }
    figure = reidentification.rates(result(identified_faces(), panels))
    # Two private images, two of DLG and one of GRNN, whose other is a black tile.
    assert len(figure.findobj(mpl.image.AxesImage)) == 5
    assert len(figure.findobj(lambda part: part.get_gid() == "dead")) == 1


def test_without_results_the_figure_says_so(result: Callable[..., Result]) -> None:
    figure = reidentification.rates(result(absent_cells={"cell": "no faces"}))
    assert any("Nothing to show: no faces" in text.get_text() for text in figure.findobj(mpl.text.Text))
