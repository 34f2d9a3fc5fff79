"""What curves and dots share: the colours and markers of their groups, the axes, the legend."""

import math
from collections.abc import Mapping, Sequence
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
    "random-gradient": ".",
    "random-noise": "x",
    "dataset-mean": "+",
    "unrelated-image": "d",
    "original": "|",
}
# Inches: a line of the legend, a letter of it, and what an entry takes beside its words.
ENTRY, LETTER, HANDLE = 0.175, 0.062, 0.62


def colours(names: Sequence[Any], inked: Sequence[Any], *, rising: bool = False) -> dict[Any, Any]:
    """Return a colour for each name; those of `inked` are black. Rising: from light to dark, for an ordered
    quantity."""
    others = [name for name in names if name not in inked]
    palette = sns.color_palette("flare" if rising else "colorblind", len(others))
    coloured = dict(zip(others, palette, strict=True))
    return {name: coloured.get(name, INK) for name in names}


def across(entries: Sequence[Line2D]) -> int:
    """Return how many entries of a legend fit beside each other."""
    longest = max((len(str(entry.get_label())) for entry in entries), default=0)
    return max(1, min(5, len(entries), int((WIDTH - 0.3) / (LETTER * longest + HANDLE))))


def legend_height(entries: Sequence[Line2D]) -> float:
    """Return the inches of a legend."""
    return ENTRY * (1 + math.ceil(len(entries) / across(entries))) if entries else 0.1


def legend(body: SubFigure, entries: Sequence[Line2D]) -> None:
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
        Line2D([], [], color=GREY, linestyle="none", marker=marker, label=words.BASELINES[name])
        for name, marker in NULLS.items()
        if name in there
    ]
    if PRINTED in there:
        star: Any = {"marker": "*", "markersize": 8, "markerfacecolor": "white", "markeredgecolor": INK}
        entries.append(Line2D([], [], linestyle="none", label="published", **star))
    return entries


def bounded(metric: Any) -> bool:
    """Return whether a metric is a share, whose axis goes from 0 to 1."""
    return str(metric) in words.SHARES or str(metric).startswith(("success_", "matching_", "top"))


def stars(axes: Axes, rows: pd.DataFrame, x: str, y: str, palette: Mapping[Any, Any]) -> None:
    """Draw the printed numbers among some rows, each in the colour of its group."""
    for name, part in rows[rows["baseline"] == PRINTED].groupby("hue", sort=False):
        sns.scatterplot(
            data=part,
            x=x,
            y=y,
            ax=axes,
            zorder=5,
            clip_on=False,
            legend=False,
            marker="*",
            s=95,
            color=palette[name],
            edgecolor=INK,
            linewidth=0.8,
        )


def nulls(axes: Axes, rows: pd.DataFrame, x: Mapping[str, Any] | str, y: Mapping[str, Any] | str) -> None:
    """Draw what no attack achieves, in grey, each kind with a mark of its own."""
    for name, marker in NULLS.items():
        part = rows[rows["baseline"] == name]
        if len(part):
            look = {"linewidth": 1} if marker in "x+|" else {"linewidth": 0}
            sns.scatterplot(
                data=part,
                x=x,
                y=y,
                ax=axes,
                color=GREY,
                marker=marker,
                s=26,
                zorder=2,
                legend=False,
                clip_on=False,
                **look,
            )
