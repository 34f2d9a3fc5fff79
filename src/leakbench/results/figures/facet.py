"""The one way to draw a facet: rows in groups, axes for parts of them, and the marks that they share.

A drawing chooses its rows and paints its own mark into the axes of each part.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.colors as mcolors
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D

from leakbench.metrics.baselines import WORDS
from leakbench.papers.verdicts.tolerances import possible
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import OUTCOMES, PRINTED, Columns, named, ordered
from leakbench.results.figures.sheet import GREY, INK, WIDTH, Body

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
NULLS = dict(zip(WORDS, itertools.cycle("oXPh*dDvsH<>p8"), strict=False))
# The marker of a printed outcome, and on which edge of the axes it stands: failure at the low one.
PLACES = {OUTCOMES["failure"]: ("X", 0.0), OUTCOMES["success"]: ("$✓$", 1.0)}
# Place in the palette → what stands there instead of a pink and a yellow that are too pale on white, and of
# the grey that the null baselines have.
_INSTEAD = {6: "#8c2d4f", 7: "#5e3c99", 8: "#7d7400"}
# Shares whose values are far below 1.
SMALL = ("mse", "span_distance")
# In inches: a line of the legend, a letter of it, and the room that an entry takes beside its words.
ENTRY, LETTER, HANDLE = 0.175, 0.062, 0.62


def grouped(
    result: Result,
    rows: pd.DataFrame,
    columns: Columns | None,
    text: Mapping[str, str] | None,
    **names: Sequence[str],
) -> pd.DataFrame:
    """Return the rows in order, with a new column of words for each of `names`, most important first."""
    rows = ordered(result, rows, list(itertools.chain(*names.values())), columns)
    return rows.assign(**{name: named(result, rows, by, text) for name, by in names.items()})


def faceted(
    mark: Callable[..., None],
    parts: Sequence[tuple[Any, ...]],
    note: str,
    *,
    heights: Sequence[float],
    below: float,
    across: int = 1,
    widths: Sequence[float] | None = None,
    entries: Sequence[Line2D] = (),
    **shared: Any,
) -> Body:
    """Return a drawing of a grid of axes, with a legend below if there are entries."""

    def paint(body: SubFigure) -> None:
        ratios = {"height_ratios": heights, "width_ratios": widths}
        grid: Any = body.subplots(len(heights), across, squeeze=False, gridspec_kw=ratios, **shared)
        for axes, part in itertools.zip_longest(grid.flat, parts):
            mark(axes, *part) if part else axes.remove()
        if entries:
            look: Any = {"handlelength": 2.4, "columnspacing": 1.8, "labelspacing": 0.4}
            columns = _beside(entries)
            body.legend(handles=list(entries), loc="outside lower center", ncols=columns, **look)

    return Body(sum(heights) + below, note, paint)


def colours(names: Sequence[str], inked: Sequence[str], *, rising: bool = False) -> Mapping[str, Any]:
    """Return a colour for each name: black for those `inked`, from light to dark for a rising quantity."""
    others = [name for name in names if name not in inked]
    own = sns.color_palette("colorblind")
    distinct = [mcolors.to_rgb(_INSTEAD.get(place, colour)) for place, colour in enumerate(own)]
    palette = sns.color_palette("flare", len(others)) if rising else itertools.cycle(distinct)
    coloured = dict(zip(others, palette, strict=False))
    return {name: coloured.get(name, INK) for name in names}


def entry(label: str, **look: Any) -> Line2D:
    """Return an entry of the legend: a bare marker, unless `look` has a line style."""
    bare: Any = {"linestyle": "none", "markersize": 5}
    return Line2D([], [], label=label, **bare | look)


def keyed(looks: Mapping[str, Any], markers: Mapping[str, str], varied: str, **look: Any) -> list[Line2D]:
    """Return the legend's entries for groups that differ in one setting, if there are several groups."""
    several = [name for name in looks if name and len(looks) > 1]
    return [entry(name, marker=markers.get(name, ""), **{varied: looks[name]}, **look) for name in several]


def compared(rows: pd.DataFrame) -> list[Line2D]:
    """Return the legend's entries for the null baselines and the printed numbers among some rows."""
    grey: Any = {"color": GREY, "markeredgewidth": 0}
    white: Any = {"markerfacecolor": "white", "markeredgecolor": INK}
    found = {name: entry(WORDS[name], marker=each, **grey) for name, each in NULLS.items()}
    found[PRINTED] = entry("published", marker="*", markersize=8, **white)
    for name, (marker, _) in PLACES.items():
        found[name] = entry(f"published: {name.partition(' ')[2]}", marker=marker, markersize=7, **white)
    there = set(rows["baseline"])
    return [each for name, each in found.items() if name in there]


def legend_height(entries: Sequence[Line2D]) -> float:
    return ENTRY * (1 + math.ceil(len(entries) / _beside(entries))) if entries else 0.1


def _beside(entries: Sequence[Line2D]) -> int:
    longest = max(len(str(each.get_label())) for each in entries)
    return max(1, min(5, len(entries), int((WIDTH - 0.3) / (LETTER * longest + HANDLE))))


def bounded(metric: Any) -> bool:
    """Return whether a metric, or a rank such as top-1, is a share, whose axis goes from 0 to 1."""
    share = possible(str(metric), -math.inf, math.inf) == (0, 1) or str(metric).startswith("top-")
    return share and metric not in SMALL


def scatter(axes: Axes, rows: pd.DataFrame, x: str, y: str, **look: Any) -> None:
    """Draw rows as marks that may reach over the edge of the axes."""
    if len(rows):
        # Seaborn would label axes without a label, and make every tick first: a third of its time.
        axes.set(xlabel=axes.get_xlabel() or x, ylabel=axes.get_ylabel() or y)
        sns.scatterplot(data=rows, x=x, y=y, ax=axes, legend=False, clip_on=False, **look)


def compare(axes: Axes, rows: pd.DataFrame, x: str, y: str, palette: Mapping[str, Any]) -> None:
    """Draw null baselines in grey, and what is printed in the colours of its groups."""
    # A printed number is a star. A printed outcome has no number, and stands on an edge of the axes.
    null = rows[rows["baseline"].isin(list(NULLS))]
    scatter(axes, null, x, y, style="baseline", markers=NULLS, color=GREY, s=20, linewidth=0, zorder=2)
    star: Any = {"marker": "*", "s": 95, "edgecolor": INK, "linewidth": 0.8, "zorder": 5}
    scatter(axes, rows[rows["baseline"] == PRINTED], x, y, hue="hue", palette=palette, **star)
    for name, (marker, edge) in PLACES.items():
        part = rows[rows["baseline"] == name]
        upright = y == "mean"
        at: Any = axes.get_xaxis_transform() if upright else axes.get_yaxis_transform()
        # Where several groups have one place, their marks stand beside each other.
        edges = edge + (0.5 - edge) * 0.14 * part.groupby(x if upright else y).cumcount()
        places = (part[x], edges) if upright else (edges, part[y])
        look: Any = {"marker": marker, "s": 42, "edgecolor": INK, "linewidth": 0.6, "zorder": 5}
        for across, up, group in zip(*places, part["hue"], strict=True):
            axes.scatter(across, up, color=palette[group], transform=at, clip_on=False, **look)


def bare(axes: Axes) -> None:
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
