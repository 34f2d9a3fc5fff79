"""The marks and the legend that drawings of curves and of dots share.

These are the colours and markers of groups, and the marks of null baselines and of printed numbers.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import matplotlib.colors as mcolors
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D

from leakbench.results.figures import words
from leakbench.results.figures.rows import PRINTED
from leakbench.results.figures.sheet import GREY, INK, WIDTH

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
NULLS = {
    "random-gradient": "o",
    "random-noise": "X",
    "dataset-mean": "P",
    "typical-record": "h",
    "other-update": "*",
    "unrelated-image": "d",
    "label-prior": "D",
    "label-constant": "v",
    "original": "s",
    "transformed": "H",
    "certified": "<",
    "expected": ">",
}
# The place of the palette's grey, which the null baselines have, and the violet that stands there instead.
_GREY, _VIOLET = 7, "#5e3c99"
# In inches: a line of the legend, a letter of it, and the room that an entry takes beside its words.
ENTRY, LETTER, HANDLE = 0.175, 0.062, 0.62


def colours(names: Sequence[str], inked: Sequence[str], *, rising: bool = False) -> dict[str, Any]:
    """Return a colour for each name.

    names: the groups, in order.
    inked: the names that are black.
    rising: whether the colours go from light to dark, for an ordered quantity.
    """
    others = [name for name in names if name not in inked]
    distinct = list(sns.color_palette("colorblind"))
    distinct[_GREY] = mcolors.to_rgb(_VIOLET)
    palette = sns.color_palette("flare", len(others)) if rising else itertools.cycle(distinct)
    coloured = dict(zip(others, palette, strict=False))
    return {name: coloured.get(name, INK) for name in names}


def entry(label: str, **look: Any) -> Line2D:
    """Return an entry of the legend.

    label: its words.
    look: settings of `Line2D`. Without a line style, the entry is a bare marker.
    """
    bare: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    return Line2D([], [], label=label, **bare | look)


def across(entries: Sequence[Line2D]) -> int:
    """Return how many entries of a legend fit beside each other."""
    longest = max((len(str(each.get_label())) for each in entries), default=0)
    return max(1, min(5, len(entries), int((WIDTH - 0.3) / (LETTER * longest + HANDLE))))


def legend_height(entries: Sequence[Line2D]) -> float:
    """Return the height of a legend in inches."""
    return ENTRY * (1 + math.ceil(len(entries) / across(entries))) if entries else 0.1


def add_legend(body: SubFigure, entries: Sequence[Line2D]) -> None:
    """Put a legend below a drawing's axes."""
    if entries:
        body.legend(
            handles=list(entries),
            loc="outside lower center",
            ncols=across(entries),
            handlelength=2.4,
            columnspacing=1.8,
            labelspacing=0.4,
        )


def compared(rows: pd.DataFrame) -> list[Line2D]:
    """Return the legend's entries for the null baselines and the printed numbers among some rows."""
    there = set(rows["baseline"])
    entries = [
        entry(words.BASELINES[name], color=GREY, marker=marker, markeredgewidth=0)
        for name, marker in NULLS.items()
        if name in there
    ]
    star = entry("published", marker="*", markersize=8, markerfacecolor="white", markeredgecolor=INK)
    return [*entries, star] if PRINTED in there else entries


def bounded(metric: Any) -> bool:
    """Return whether a metric is a share, whose axis goes from 0 to 1."""
    return str(metric) in words.SHARES or str(metric).startswith(("success_", "matching_", "top", "alarm_"))


def scatter(axes: Axes, rows: pd.DataFrame, x: str, y: str, **look: Any) -> None:
    """Draw rows as marks that may reach over the edge of the axes.

    axes: where the marks are drawn.
    rows: one mark each.
    x: the column along the horizontal axis.
    y: the column along the vertical axis.
    look: further settings of `seaborn.scatterplot`.
    """
    if len(rows):
        # Seaborn would label axes without a label, and make every tick first: a third of its time.
        axes.set(xlabel=axes.get_xlabel() or x, ylabel=axes.get_ylabel() or y)
        sns.scatterplot(data=rows, x=x, y=y, ax=axes, legend=False, clip_on=False, **look)


def compare(axes: Axes, rows: pd.DataFrame, x: str, y: str, palette: dict[str, Any]) -> None:
    """Draw the null baselines and the printed numbers among some rows.

    Null baselines are grey. Printed numbers are stars in the colours of their groups.

    axes: where the marks are drawn.
    rows: a table of which only these baselines are drawn.
    x: the column along the horizontal axis.
    y: the column along the vertical axis.
    palette: group → colour.
    """
    null = rows[rows["baseline"].isin(list(NULLS))]
    scatter(axes, null, x, y, style="baseline", markers=NULLS, color=GREY, s=20, linewidth=0, zorder=2)
    star: dict[str, Any] = {"marker": "*", "s": 95, "edgecolor": INK, "linewidth": 0.8, "zorder": 5}
    scatter(axes, rows[rows["baseline"] == PRINTED], x, y, hue="hue", palette=palette, **star)
