"""What curves and dots share: the colours and markers of their groups, nulls and printed numbers, the
legend."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D

from leakbench.drawing import words
from leakbench.drawing.rows import PRINTED
from leakbench.drawing.sheet import GREY, INK, WIDTH

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
# Inches: a line of the legend, a letter of it, and what an entry takes beside its words.
ENTRY, LETTER, HANDLE = 0.175, 0.062, 0.62


def colours(names: Sequence[str], inked: Sequence[str], *, rising: bool = False) -> dict[str, Any]:
    """Return a colour for each name; those of `inked` are black. Rising: from light to dark, for an ordered
    quantity."""
    others = [name for name in names if name not in inked]
    palette = sns.color_palette("flare" if rising else "colorblind", len(others))
    coloured = dict(zip(others, palette, strict=True))
    return {name: coloured.get(name, INK) for name in names}


def entry(label: str, **look: Any) -> Line2D:
    """Return an entry of the legend that looks so; it is a bare marker unless it has a line style."""
    bare: dict[str, Any] = {"linestyle": "none", "markersize": 5}
    return Line2D([], [], label=label, **bare | look)


def across(entries: Sequence[Line2D]) -> int:
    """Return how many entries of a legend fit beside each other."""
    longest = max((len(str(each.get_label())) for each in entries), default=0)
    return max(1, min(5, len(entries), int((WIDTH - 0.3) / (LETTER * longest + HANDLE))))


def legend_height(entries: Sequence[Line2D]) -> float:
    """Return the inches of a legend."""
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
    """Return the legend's entries for the nulls and the printed numbers that are among some rows."""
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
    return str(metric) in words.SHARES or str(metric).startswith(("success_", "matching_", "top"))


def scatter(axes: Axes, rows: pd.DataFrame, x: str, y: str, **look: Any) -> None:
    """Draw rows as marks that may reach over the edge of the axes."""
    if len(rows):
        # Seaborn would label axes that have no label, and make every tick before: a third of its time.
        axes.set(xlabel=axes.get_xlabel() or x, ylabel=axes.get_ylabel() or y)
        sns.scatterplot(data=rows, x=x, y=y, ax=axes, legend=False, clip_on=False, **look)


def compare(axes: Axes, rows: pd.DataFrame, x: str, y: str, palette: dict[str, Any]) -> None:
    """Draw the nulls among some rows in grey, and the printed numbers as stars in the colours of their
    groups."""
    null = rows[rows["baseline"].isin(list(NULLS))]
    scatter(axes, null, x, y, style="baseline", markers=NULLS, color=GREY, s=20, linewidth=0, zorder=2)
    star: dict[str, Any] = {"marker": "*", "s": 95, "edgecolor": INK, "linewidth": 0.8, "zorder": 5}
    scatter(axes, rows[rows["baseline"] == PRINTED], x, y, hue="hue", palette=palette, **star)
