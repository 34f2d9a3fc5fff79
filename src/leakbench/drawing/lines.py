"""Curves: metrics against an ordered quantity, a panel for each metric and condition, a colour for each
group."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from leakbench.drawing import words
from leakbench.drawing.legend import (
    MARKERS,
    bounded,
    colours,
    compared,
    legend,
    legend_height,
    nulls,
    stars,
)
from leakbench.drawing.result import Result
from leakbench.drawing.rows import RUN, chosen, counted, levels, named, ordered, word
from leakbench.drawing.sheet import GREY, INK, MUTED, WIDTH, Body

DASHES = ("", (3, 1.5), (1, 1.2), (5, 1.2, 1, 1.2), (2, 2), (4, 1, 1, 1, 1, 1))
# A curve of fewer points is no curve: they are not joined. More points than MANY have no markers.
# NEAR: neighbours on a logarithmic axis whose labels would touch. LETTER: inches of a letter of a title.
JOINED, MANY, TICKS, NEAR, LETTER = 3, 14, 12, 1.3, 0.06


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
    convention: str = "standard",
    baselines: tuple[str, ...] = ("",),
    against: tuple[str, ...] = (),
    limit: dict[str, str | float] | None = None,
    log: tuple[Literal["x", "y"], ...] = (),
    label: str = "",
    inked: tuple[str, ...] = (),
    recorded: bool = False,
    problems: bool = False,
    across: int = 3,
    height: float = 2.3,
) -> Body | None:
    """Draw `metrics` against column `x`, `across` panels in a row, each `height` inches.

    hue, style: columns whose values have a colour, a dash. panels: columns whose values have a panel.
    baselines: what is joined: "" the end of a run, "snapshot" the way there. against: null baselines. limit:
    metric → number, or column, that is the most there can be. inked: groups that are black. recorded: with
    longer runs that were recorded. problems: with the rounds of the exhibit's problems. x `share` is the
    share of a run's steps.
    """
    rows = chosen(
        result,
        metrics,
        where=where,
        convention=convention,
        baselines=[*baselines, *against],
        longer=recorded,
        columns=columns,
    )
    if x == "share":
        rows = rows.assign(share=rows["iterations"] / rows.groupby(RUN)["iterations"].transform("max"))
    own = rows[rows["baseline"].isin(baselines)]
    if own.empty or own[x].isna().all():
        return None
    order = {"metric": {name: name for name in metrics}} | (columns or {})
    rows, colour, dash, places = _grouped(result, rows, x, hue, style, columns, text)
    titles = list(dict.fromkeys(zip(*(ordered(result, own, panels, order)[c] for c in panels), strict=True)))
    across = min(across, len(titles))
    palette = colours(list(colour), inked, rising=all(colour.values()))
    entries = _entries(rows[rows["baseline"].isin(baselines)], palette, dash, recorded) + compared(rows)
    if limit:
        entries.append(Line2D([], [], color=MUTED, linewidth=1, label="everything"))
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
            nulls(axes, part, x, "mean")
            _curves(axes, part[part["baseline"].isin(baselines)], x, palette, dash)
            stars(axes, part, x, "mean", palette)
            if problems:
                _problems(axes, result, part)
            names = [word(result, c, v, text) for c, v in zip(panels, values, strict=True) if c != "metric"]
            axes.set_title("\n".join(_folded(names, int((WIDTH / across - 0.45) / LETTER))), fontsize=7.5)
            _dress(axes, part, x, label or words.AXES.get(x, x), places, log)
            if number % across and metric == shown:
                axes.set_ylabel("")
            shown = metric
        for axes in grid.flat[len(titles) :]:
            axes.remove()
        legend(body, entries)

    return Body(height * down + legend_height(entries), counted(rows), paint)


def _grouped(
    result: Result,
    rows: pd.DataFrame,
    x: str,
    hue: Sequence[str],
    style: Sequence[str],
    columns: Any,
    text: Any,
) -> tuple[pd.DataFrame, dict[str, Any], dict[str, Any], dict[str, int]]:
    """Add what a row's colour and dash are called; return also the colours, the dashes and, for an x of
    words, its places."""
    rows = ordered(result, rows, [*hue, *style], columns)
    rows = rows.assign(hue=named(result, rows, hue, text), style=named(result, rows, style, text))
    own = rows[~rows["baseline"].isin(words.BASELINES)]
    rising = (
        len(hue) == 1
        and hue[0] != "client"
        and all(isinstance(value, int | float) for value in own[hue[0]].dropna())
    )
    colour = dict.fromkeys(dict.fromkeys(own["hue"]), rising)
    dash = {name: number for number, name in enumerate(dict.fromkeys(own["style"]))}
    places = {}
    if rows[x].map(lambda value: isinstance(value, str)).any():
        places = {value: place for place, value in enumerate(levels(result, rows, x, columns))}
        rows = rows.assign(**{x: rows[x].map(places)})
    return rows.assign(**{x: rows[x].astype(float)}), colour, dash, places


def _curves(
    axes: Axes, rows: pd.DataFrame, x: str, palette: Mapping[Any, Any], dash: Mapping[Any, int]
) -> None:
    """Join the points of each group; those of a group with too few points stay dots."""
    markers = list(dash) if any(dash) else list(palette)
    shape = "style" if any(dash) else "hue"
    of: dict[Any, str] = dict(zip(markers, MARKERS * 3, strict=False))
    recorded = "device" in rows
    for (hue, style), part in rows.groupby(["hue", "style"], sort=False):
        for old, line in part.groupby(part["device"].notna()) if recorded else [(False, part)]:
            line = line.sort_values(x, kind="stable")
            several = line.groupby(x).size().max() > 1
            pattern = DASHES[1] if old else DASHES[dash[str(style)] % len(DASHES)]
            joined = len(line) >= JOINED and not several
            sns.lineplot(
                data=line,
                x=x,
                y="mean",
                ax=axes,
                errorbar=None,
                estimator=None,
                legend=False,
                color=palette[hue],
                linestyle=(0, pattern) if pattern else "-",
                linewidth=1.4 if joined else 0,
                clip_on=False,
                zorder=3,
                marker=of[hue if shape == "hue" else style] if len(line) <= MANY else "",
                markersize=4.2,
                markeredgecolor="white" if not old else palette[hue],
                markeredgewidth=0.4,
            )
            if joined:
                axes.fill_between(
                    line[x], line["ci_low"], line["ci_high"], color=palette[hue], alpha=0.16, linewidth=0
                )
            else:
                axes.vlines(line[x], line["ci_low"], line["ci_high"], color=palette[hue], linewidth=1.2)


def _entries(
    rows: pd.DataFrame, palette: Mapping[Any, Any], dash: Mapping[Any, int], recorded: bool
) -> list[Line2D]:
    """Return the legend's entries for colours, for dashes where they say something of their own, and for
    recorded runs."""
    shapes = dict(zip(palette, MARKERS * 3, strict=False)) if not any(dash) else {}
    found = [
        Line2D([], [], color=palette[name], label=name, marker=shapes.get(name, ""), markersize=4.5)
        for name in palette
        if name and len(palette) > 1
    ]
    for name, place in dash.items():
        if name and len(dash) > 1:
            pattern: Any = (0, DASHES[place % len(DASHES)]) if place else "-"
            found.append(
                Line2D(
                    [],
                    [],
                    color=INK,
                    linestyle=pattern,
                    label=name,
                    marker=MARKERS[place % len(MARKERS)],
                    markersize=4.5,
                )
            )
    if recorded and "device" in rows and rows["device"].notna().any():
        scale = words.listed(sorted(rows.loc[rows["device"].notna(), "scale"].unique()))
        found.append(Line2D([], [], color=GREY, linestyle=(0, DASHES[1]), label=f"recorded, scale {scale}"))
    return found


def _limit(axes: Axes, rows: pd.DataFrame, x: str, most: str | float | None) -> None:
    if most is None:
        return
    ends = rows.drop_duplicates(x).sort_values(x)
    high = ends[most] if isinstance(most, str) else pd.Series(most, index=ends.index)
    sns.lineplot(
        x=ends[x], y=high, ax=axes, color=MUTED, linewidth=1, zorder=1, errorbar=None, gid="everything"
    )


def _problems(axes: Axes, result: Result, rows: pd.DataFrame) -> None:
    """Mark the rounds in which the exhibit tells of a problem, with the client that had it."""
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
    elif "x" in log and len(there) <= TICKS and all(b > NEAR * a for a, b in itertools.pairwise(there)):
        axes.set_xscale(
            "symlog" if min(there) == 0 else "log", **({"linthresh": 1} if min(there) == 0 else {})
        )
        axes.xaxis.set_major_locator(FixedLocator(there))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticks(there, [f"{place:g}" for place in there])
    elif "x" in log:
        axes.set_xscale("log")
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
        highest = max(rows["mean"].max(), rows["ci_high"].max() if rows["ci_high"].notna().any() else 0)
        axes.set_ylim(0, highest * 1.08 or 1)


def _folded(names: list[str], letters: int) -> list[str]:
    """Return the names of a panel in as few lines as hold them."""
    out: list[str] = []
    for name in filter(None, names):
        if out and len(out[-1]) + len(name) + 3 <= letters:
            out[-1] += f" · {name}"
        else:
            out.append(name)
    return out
