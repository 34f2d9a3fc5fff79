"""Decision boundaries in the plane, one small map for each training, and the points that they were learned
from."""

import math
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import INK, WIDTH, Body

ACROSS, GAP, HEAD = 5, 0.12, 0.42
SIDE = (WIDTH - 0.5 - GAP * (ACROSS - 1)) / ACROSS
CLASSES = sns.color_palette("colorblind", 2)
SHADES = LinearSegmentedColormap.from_list("classes", [CLASSES[0], "white", CLASSES[1]])


def boundaries(result: Result) -> Body | None:
    """The data of each client and of the test first, as in Figure 4.2, then a map for each training.

    Shade: the probability of a class; line: where both are alike; above: the accuracy on all test points, and
    how much of the plane is classified otherwise than by centralised training.
    """
    drawn = result.facts.get("boundaries", [])
    if not drawn:
        return None
    # The clients of a federation; centralised training has one, with everybody's points.
    first = max(range(len(drawn)), key=lambda place: drawn[place]["clients"])
    data = [str(client) for client in range(drawn[first]["clients"])] + ["test"]
    cells = len(data) + len(drawn)
    lines = math.ceil(cells / ACROSS)
    height = lines * (SIDE + HEAD) + 0.1

    def paint(body: SubFigure) -> None:
        for place in range(cells):
            row, column = divmod(place, ACROSS)
            left, bottom = 0.25 + column * (SIDE + GAP), height - (row + 1) * (SIDE + HEAD)
            axes = body.add_axes((left / WIDTH, bottom / height, SIDE / WIDTH, SIDE / height))
            if place < len(data):
                _points(axes, result.tensors[f"{first}/points/{data[place]}"])
                name = "test points" if data[place] == "test" else f"points of client {data[place]}"
                about = drawn[first]
            else:
                about = drawn[place - len(data)]
                name = f"{words.training(about['training'])}{_seed(about, drawn)}\n{_told(about)}"
                _surface(axes, result.tensors[f"{place - len(data)}/surface"], about["extent"])
                _points(axes, result.tensors[f"{place - len(data)}/points/test"], 0.5)
            axes.set_title(name, loc="left", fontsize=6.6)
            left_edge, right_edge, low, high = about["extent"]
            axes.set(xlim=(left_edge, right_edge), ylim=(low, high), xticks=[], yticks=[])
            axes.grid(visible=False)

    rounds = words.listed(sorted({about["round"] for about in drawn}))
    note = f"n = 1 run each, the model of the last round ({rounds}); "
    note += "apart: the share of the plane that is classified otherwise than by centralised training"
    return Body(height, note, paint)


def _surface(axes: Axes, surface: np.ndarray, extent: list[float]) -> None:
    left, right, low, high = extent
    axes.imshow(
        surface,
        origin="lower",
        extent=(left, right, low, high),
        cmap=SHADES,
        vmin=0,
        vmax=1,
        alpha=0.55,
        aspect="auto",
    )
    x, y = (np.linspace(*ends, surface.shape[0]) for ends in ((left, right), (low, high)))
    if surface.min() < 0.5 < surface.max():
        axes.contour(x, y, surface, levels=[0.5], colors=INK, linewidths=1)


def _points(axes: Axes, points: np.ndarray, size: float = 2.0) -> None:
    for label in (0, 1):
        chosen = points[points[:, 2] == label]
        axes.scatter(chosen[:, 0], chosen[:, 1], s=size, color=CLASSES[label], linewidths=0)


def _seed(about: dict[str, Any], drawn: list[dict[str, Any]]) -> str:
    return f", seed {about['seed']}" if len({each["seed"] for each in drawn}) > 1 else ""


def _told(about: dict[str, Any]) -> str:
    told = [f"{about['accuracy']:.1%} right"]
    if about.get("apart") is not None and about["clients"] > 1:
        told.append(f"{about['apart']:.1%} apart")
    return ", ".join(told)
