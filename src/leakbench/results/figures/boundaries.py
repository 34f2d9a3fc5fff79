"""Decision boundaries in the plane: a small map for each training, and the points of clients and test set."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from leakbench.results.figures import words
from leakbench.results.figures.facet import faceted
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import word
from leakbench.results.figures.sheet import INK, Body

# How many maps a row has, and the height in inches of a map with its title.
ACROSS, HEIGHT = 5, 2.1
CLASSES = sns.color_palette("colorblind", 2)
SHADES = LinearSegmentedColormap.from_list("classes", [CLASSES[0], "white", CLASSES[1]])


def boundaries(result: Result) -> Body | None:
    """Draw the points of each client and of the test set, as in Figure 4.2, then a map for each training.

    The shade shows the probability of the second class, the line where both are equally likely. Above a map
    stand the accuracy on all test points and the share of the plane that centralised training classifies
    otherwise.
    """
    drawn = result.facts.get("boundaries", [])
    if not drawn:
        return None
    # The training with the most clients shows the points of each. Centralised training has one client, which
    # holds all points.
    first = max(range(len(drawn)), key=lambda place: drawn[place]["clients"])
    seeds = len({about["seed"] for about in drawn}) > 1
    parts: list[tuple[Any, ...]] = [
        (f"points of client {client}", first, str(client), 2.0) for client in range(drawn[first]["clients"])
    ]
    parts.append(("test points", first, "test", 2.0))
    for number, about in enumerate(drawn):
        name = word(result, "training", about["training"]) + (f", seed {about['seed']}" if seeds else "")
        right = f"{about['accuracy']:.1%} right"
        if about.get("apart") is not None and about["clients"] > 1:
            right += f", {about['apart']:.1%} apart"
        parts.append((f"{name}\n{right}", number, "test", 0.5))

    def mark(axes: Axes, title: str, number: int, group: str, size: float) -> None:
        extent = drawn[number]["extent"]
        # A map has a shade below small points.
        if size < 1:
            _surface(axes, result.tensors[f"{number}/surface"], extent)
        _points(axes, result.tensors[f"{number}/points/{group}"], extent, size)
        axes.set_title(title, fontsize=6.6)

    rounds = words.listed(sorted({about["round"] for about in drawn}))
    note = f"n = 1 run each, the model of the last round ({rounds}); "
    note += "apart: the share of the plane that is classified otherwise than by centralised training"
    heights = [HEIGHT] * math.ceil(len(parts) / ACROSS)
    bare: Any = {"xticks": [], "yticks": []}
    return faceted(mark, parts, note, heights=heights, across=ACROSS, below=0, subplot_kw=bare)


def _surface(axes: Axes, surface: np.ndarray, extent: Any) -> None:
    axes.imshow(
        surface, origin="lower", extent=extent, cmap=SHADES, vmin=0, vmax=1, alpha=0.55, aspect="auto"
    )
    if surface.min() < 0.5 < surface.max():
        axes.contour(surface, levels=[0.5], extent=extent, colors=[INK], linewidths=1)


def _points(axes: Axes, points: np.ndarray, extent: Sequence[float], size: float) -> None:
    x, y, label = points.T
    sns.scatterplot(x=x, y=y, hue=label, palette=CLASSES, s=size, linewidth=0, legend=False, ax=axes)
    left, right, low, high = extent
    axes.set(xlim=(left, right), ylim=(low, high))
    axes.grid(visible=False)
