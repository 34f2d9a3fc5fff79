"""Curves of metrics against an ordered quantity.

Each metric and condition has a panel, and each group has a colour.
"""

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from leakbench.base.cellname import CELL
from leakbench.results.figures import words
from leakbench.results.figures.legend import (
    MARKERS,
    add_legend,
    bounded,
    colours,
    compare,
    compared,
    entry,
    legend_height,
)
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import chosen, counted, levels, named, ordered, word
from leakbench.results.figures.sheet import INK, MUTED, WIDTH, Body

DASHES = ("-", *((0, gaps) for gaps in ((3, 1.5), (1, 1.2), (5, 1.2, 1, 1.2), (2, 2), (4, 1, 1, 1, 1, 1))))
# Fewer points than JOINED are not joined. More points than MANY have no markers. On a logarithmic axis, each
# of up to TICKS values has a label, unless the ratio of two neighbours is at most NEAR: their labels would
# touch. Values within a factor of WIDE have ticks between the powers of ten. LETTER: the width in inches of a
# letter of a title.
JOINED, MANY, TICKS, NEAR, WIDE, LETTER = 3, 14, 12, 1.3, 50, 0.06


def lines(
    result: Result,
    *,
    x: str,
    metrics: tuple[str, ...],
    hue: tuple[str, ...] = (),
    style: tuple[str, ...] = (),
    panels: tuple[str, ...] = ("metric",),
    where: dict[str, str | float | list[str | float]] | None = None,
    columns: dict[str, dict[str, str | float | list[str | float]]] | None = None,
    text: dict[str, str] | None = None,
    baselines: tuple[str, ...] = ("",),
    against: tuple[str, ...] = (),
    limit: dict[str, str | float] | None = None,
    log: tuple[Literal["x", "y"], ...] = (),
    label: str = "",
    inked: tuple[str, ...] = (),
    problems: bool = False,
    across: int = 3,
    height: float = 2.3,
) -> Body | None:
    """Draw curves of some metrics.

    x: the column along the horizontal axis; `share` is the share of a run's steps.
    metrics: the metrics that are drawn.
    hue: columns whose values each have a colour.
    style: columns whose values each have a dash.
    panels: columns whose values each have a panel.
    where: column → the value, or list of values, of the rows that are drawn.
    columns: new column → how it follows from other columns (`derived` in `drawing/rows.py`).
    text: value → the words that are shown in its place.
    baselines: which points a curve joins; "" is the end of a run, "snapshot" a point on the way.
    against: null baselines, drawn as grey marks.
    limit: metric → its greatest possible value, as a number or as the name of a column.
    log: axes with a logarithmic scale.
    label: the words below the horizontal axis.
    inked: groups that are black, by their words in the legend.
    problems: whether the rounds in which the exhibit names a problem are marked with the client.
    across: the largest number of panels in a row.
    height: the height of a row in inches.
    """
    rows = chosen(
        result,
        metrics,
        where=where,
        baselines=[*baselines, *against],
        columns=columns,
    )
    if x == "share":
        rows = rows.assign(share=rows["iterations"] / rows.groupby(list(CELL))["iterations"].transform("max"))
    own = rows[rows["baseline"].isin(baselines)]
    if own.empty or own[x].isna().all():
        return None
    order = {"metric": {name: name for name in metrics}} | (columns or {})
    rows, rising, places = _grouped(result, rows, x, hue, style, columns, text)
    measured = rows[~rows["baseline"].isin(words.BASELINES)]
    palette = colours(list(dict.fromkeys(measured["hue"])), inked, rising=rising)
    dashes = dict(zip(dict.fromkeys(measured["style"]), itertools.cycle(DASHES)))
    titles = list(dict.fromkeys(zip(*(ordered(result, own, panels, order)[c] for c in panels), strict=True)))
    across = min(across, len(titles))
    # Each dash has a marker, or each colour if there is one dash only.
    markers = dict(zip(dashes if len(dashes) > 1 else palette, itertools.cycle(MARKERS)))
    entries = _entries(palette, dashes, markers) + compared(rows)
    if limit:
        entries.append(entry("everything", color=MUTED, linestyle="-", linewidth=1))
    down = math.ceil(len(titles) / across)

    def paint(body: SubFigure) -> None:
        grid: Any = body.subplots(down, across, squeeze=False)
        shown = ""
        for number, (axes, values) in enumerate(zip(grid.flat, titles, strict=False)):
            part = rows
            for column, value in zip(panels, values, strict=True):
                part = part[part[column] == value]
            metric = part["metric"].iloc[0]
            _limit(axes, part, x, (limit or {}).get(metric))
            _curves(axes, part[part["baseline"].isin(baselines)], x, palette, dashes, markers)
            compare(axes, part, x, "mean", palette)
            if problems:
                _problems(axes, result, part)
            names = [word(result, c, v, text) for c, v in zip(panels, values, strict=True) if c != "metric"]
            letters = int((WIDTH / across - 0.45) / LETTER)
            axes.set_title(textwrap.fill(" · ".join(filter(None, names)), letters), fontsize=7.5)
            _dress(axes, part, x, label or words.AXES.get(x, x), places, log)
            if number % across and metric == shown:
                axes.set_ylabel("")
            shown = metric
        for axes in grid.flat[len(titles) :]:
            axes.remove()
        add_legend(body, entries)

    return Body(height * down + legend_height(entries), counted(rows), paint)


def _grouped(
    result: Result,
    rows: pd.DataFrame,
    x: str,
    hue: Sequence[str],
    style: Sequence[str],
    columns: Any,
    text: Any,
) -> tuple[pd.DataFrame, bool, dict[str, int]]:
    """Add the columns `hue` and `style`, which name each row's colour and dash.

    Returns the rows, whether the colours stand for a rising quantity and, if x holds words, word → its place
    on the axis.
    """
    rows = ordered(result, rows, [*hue, *style], columns)
    rows = rows.assign(hue=named(result, rows, hue, text), style=named(result, rows, style, text))
    numbers = [rows[column].dropna().map(lambda value: isinstance(value, int | float)) for column in hue]
    rising = len(hue) == 1 and hue[0] != "client" and all(numbers[0])
    places = {}
    if rows[x].map(lambda value: isinstance(value, str)).any():
        places = {value: place for place, value in enumerate(levels(result, rows, x, columns))}
        rows = rows.assign(**{x: rows[x].map(places)})
    return rows.assign(**{x: rows[x].astype(float)}), rising, places


def _curves(
    axes: Axes,
    rows: pd.DataFrame,
    x: str,
    palette: Mapping[str, Any],
    dashes: Mapping[str, Any],
    markers: Mapping[str, str],
) -> None:
    """Join the points of each group; a group with fewer than JOINED points stays dots."""
    for (hue, style), line in rows.groupby(["hue", "style"], sort=False):
        hue, style = str(hue), str(style)
        line, look = line.sort_values(x, kind="stable"), {"color": palette[hue]}
        joined = len(line) >= JOINED and line[x].is_unique
        axes.plot(
            line[x],
            line["mean"],
            linestyle=dashes[style],
            linewidth=1.4 if joined else 0,
            clip_on=False,
            zorder=3,
            marker=(markers.get(style) or markers[hue]) if len(line) <= MANY else "",
            markersize=4.2,
            markeredgewidth=0.4,
            markeredgecolor="w",
            **look,
        )
        ends = line[x], line["ci_low"], line["ci_high"]
        if joined:
            axes.fill_between(*ends, alpha=0.16, linewidth=0, **look)
        else:
            axes.vlines(*ends, linewidth=1.2, **look)


def _entries(
    palette: Mapping[str, Any], dashes: Mapping[str, Any], markers: Mapping[str, str]
) -> list[Line2D]:
    """Return the legend's entries for colours, and for dashes, if there are several of them."""
    look = [
        (name, {"color": colour, "linestyle": "-"}) for name, colour in palette.items() if len(palette) > 1
    ]
    look += [(name, {"color": INK, "linestyle": dash}) for name, dash in dashes.items() if len(dashes) > 1]
    return [entry(name, marker=markers.get(name, ""), **each) for name, each in look if name]


def _limit(axes: Axes, rows: pd.DataFrame, x: str, most: str | float | None) -> None:
    if most is None:
        return
    ends = rows.drop_duplicates(x).sort_values(x)
    high = ends[most] if isinstance(most, str) else pd.Series(most, index=ends.index)
    axes.plot(ends[x], high, color=MUTED, linewidth=1, zorder=1, gid="everything")


def _problems(axes: Axes, result: Result, rows: pd.DataFrame) -> None:
    """Mark the rounds in which the exhibit names a problem, with the client that had it."""
    for each in result.facts.get("problems", {}).get(rows["training"].iloc[0], []):
        axes.axvline(each["round"], color=MUTED, linewidth=0.8, linestyle=":", zorder=1)
        name = axes.annotate(
            f" client {each['client']}",
            (each["round"], 0.97),
            xycoords=("data", "axes fraction"),
            fontsize=6,
            va="top",
            color=MUTED,
        )
        name.set_in_layout(False)


def _dress(
    axes: Axes, rows: pd.DataFrame, x: str, label: str, places: dict[str, int], log: Sequence[str]
) -> None:
    """Name and scale the axes."""
    metric = rows["metric"].iloc[0]
    axes.set(xlabel=label, ylabel=words.called("metric", str(metric)))
    there = sorted(rows[x].dropna().unique())
    if places:
        axes.set_xticks(list(places.values()), list(places))
        axes.set_xlim(-0.4, len(places) - 0.6)
    elif "x" in log:
        axes.set_xscale("log") if there[0] > 0 else axes.set_xscale("symlog", linthresh=1)
        if len(there) <= TICKS and all(b > NEAR * a for a, b in itertools.pairwise(there)):
            axes.set_xticks(there, [f"{place:g}" for place in there])
            axes.minorticks_off()
        else:
            if there[0] > 0 and there[-1] < WIDE * there[0]:
                axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            else:
                axes.xaxis.set_major_locator(LogLocator(numticks=5))
            axes.xaxis.set_minor_formatter(NullFormatter())
    elif x in ("round", "steps"):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in log and (rows["mean"] > 0).all():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif bounded(metric):
        axes.set_ylim(-0.02, 1.04)
    elif (rows["mean"] >= 0).all():
        highest = np.nanmax(rows[["mean", "ci_high"]].to_numpy(float))
        axes.set_ylim(0, 1.08 * highest or 1)
