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
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from leakbench.base.cellname import CELL
from leakbench.metrics.baselines import WORDS
from leakbench.results.figures import facet, words
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import chosen, counted, levels, named, numeric, ordered
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
    medians: tuple[str, ...] = (),
    bands: bool = True,
    unmeasured: bool = False,
    over_updates: bool = False,
    down: tuple[str, ...] = (),
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
    medians: metrics of which medians and quartiles are drawn in place of means and intervals.
    bands: whether intervals are drawn; several wide ones would hide each other.
    unmeasured: whether printed numbers that nothing measured are drawn.
    over_updates: whether intervals are those of the means of updates.
    down: columns of `panels`; each of their values starts a row of panels.
    across: the largest number of panels in a row.
    height: the height of a row in inches.
    """
    shown_as: Any = {"medians": medians, "unmeasured": unmeasured, "over_updates": over_updates}
    every = [*baselines, *against]
    rows = chosen(result, metrics, where=where, columns=columns, baselines=every, **shown_as)
    if x == "share":
        rows = rows.assign(share=rows["iterations"] / rows.groupby(list(CELL))["iterations"].transform("max"))
    if not bands:
        rows = rows.assign(ci_low=math.nan, ci_high=math.nan)
    own = rows[rows["baseline"].isin(baselines)]
    if own.empty or own[x].isna().all():
        return None
    order = {"metric": {name: name for name in metrics}} | (columns or {})
    panelled = ordered(result, own, panels, order)[list(panels)].drop_duplicates()
    titles = list(panelled.itertuples(index=False, name=None))
    rows = facet.grouped(result, rows, columns, text, hue=hue, style=style)
    # The colours of a quantity go from light to dark.
    rising = len(hue) == 1 and hue[0] != "client" and numeric(rows[hue[0]])
    places = {}
    if rows[x].map(lambda value: isinstance(value, str)).any():
        places = {value: place for place, value in enumerate(levels(result, rows, x, columns))}
        rows = rows.assign(**{x: rows[x].map(places)})
    rows = rows.assign(**{x: rows[x].astype(float)})
    measured = rows[~rows["baseline"].isin(WORDS)]
    palette = facet.colours(list(dict.fromkeys(measured["hue"])), inked, rising=rising)
    dashes = dict(zip(dict.fromkeys(measured["style"]), itertools.cycle(DASHES)))
    # Each dash has a marker, or each colour if there is one dash only.
    markers = dict(zip(dashes if len(dashes) > 1 else palette, itertools.cycle(facet.MARKERS)))
    # The legend has no marker that no curve has.
    points = measured.groupby([*panels, "hue", "style"], dropna=False, sort=False)[x].nunique()
    if points.min() > MANY:
        markers = dict.fromkeys(markers, "")
    entries = facet.keyed(palette, markers, "color", linestyle="-")
    for each in entries:
        # A group of single points has no line.
        if points[points.index.get_level_values("hue") == each.get_label()].max() < JOINED:
            each.set(linestyle="none", marker=markers.get(str(each.get_label())) or "o")
    entries += facet.keyed(dashes, markers, "linestyle", color=INK) + facet.compared(rows)
    if limit:
        entries.append(facet.entry("everything", color=MUTED, linestyle="-", linewidth=1))
    parts = [rows[rows[list(panels)].eq(pd.Series(values, panels)).all(axis=1)] for values in titles]
    shown = [part["metric"].iloc[0] for part in parts]
    across = min(across, len(titles))

    def mark(axes: Axes, number: int) -> None:
        part, metric = parts[number], shown[number]
        _limit(axes, part, x, (limit or {}).get(metric))
        own = part[part["baseline"].isin(baselines)].sort_values(x, kind="stable")
        curves = {(str(a), str(b)): line for (a, b), line in own.groupby(["hue", "style"], sort=False)}
        for place, ((colour, dash), line) in enumerate(curves.items()):
            symbol = markers[dash] if dash in markers else markers.get(colour, "")
            above = list(curves.values())[place + 1 :]
            wider = 2.2 * min(3, sum(_alike(line, other, own, x, "y" in log) for other in above))
            _curve(axes, line[x], line, palette[colour], symbol, dashes[dash], 1.4 + wider)
        facet.compare(axes, part, x, "mean", palette)
        if problems:
            _problems(axes, result, part)
        title = named(result, part.head(1), [column for column in panels if column != "metric"], text).iloc[0]
        axes.set_title(textwrap.fill(title, int((WIDTH / across - 0.45) / LETTER)), fontsize=7.5)
        # Neighbours of one metric have its name once.
        first = not numbered.index((number,)) % across or metric != shown[number - 1]
        axes.set(xlabel=label or words.AXES.get(x, x), ylabel=words.called("metric", metric) if first else "")
        _scale_x(axes, x, sorted(part[x].dropna().unique()), places, "x" in log)
        _scale_y(axes, part, "y" in log)

    numbered: list[tuple[int, ...]] = []
    for _, group in itertools.groupby(
        range(len(titles)), lambda n: [v for c, v in zip(panels, titles[n], strict=True) if c in down]
    ):
        own_row = [(number,) for number in group]
        numbered += own_row + [()] * (-len(own_row) % across if down else 0)
    place: Any = {"heights": [height] * math.ceil(len(numbered) / across), "across": across}
    below = facet.legend_height(entries)
    intervals = "bars and bands, of the means of updates" if over_updates else "bars and bands"
    note = counted(rows, intervals if bands else "", medians)
    return facet.faceted(mark, numbered, note, below=below, entries=entries, **place)


def _alike(line: pd.DataFrame, other: pd.DataFrame, rows: pd.DataFrame, x: str, log: bool) -> bool:
    """Return whether a curve lies under another one of its panel's rows, so that only a wider one is seen."""
    both = line.merge(other, on=x)
    own = [np.log10(each) if log else each for each in (both["mean_x"], both["mean_y"], rows["mean"])]
    return bool(len(both) == len(line) and (own[0] - own[1]).abs().max() <= 0.03 * np.ptp(own[2]))


def _curve(
    axes: Axes, x: pd.Series, rows: pd.DataFrame, colour: Any, marker: str, dash: Any, width: float
) -> None:
    """Join the points of one group; fewer than JOINED points stay dots."""
    joined = len(rows) >= JOINED and x.is_unique
    look: Any = {"markersize": 4.2, "markeredgewidth": 0.4, "markeredgecolor": "w", "clip_on": False}
    look |= {"marker": marker if len(rows) <= MANY or not joined else "", "linestyle": dash, "zorder": 3}
    axes.plot(x, rows["mean"], color=colour, linewidth=width if joined else 0, **look)
    ends = x, rows["ci_low"], rows["ci_high"]
    if joined:
        axes.fill_between(*ends, alpha=0.16, linewidth=0, color=colour)
    else:
        axes.vlines(*ends, linewidth=1.2, color=colour)


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
        look: Any = {"xycoords": ("data", "axes fraction"), "fontsize": 6, "va": "top", "color": MUTED}
        name = axes.annotate(f" client {each['client']}", (each["round"], 0.97), **look)
        name.set_in_layout(False)


def _scale_x(axes: Axes, x: str, there: Sequence[float], places: Mapping[str, int], log: bool) -> None:
    """Scale the horizontal axis, on which words have places, and all else the values `there`."""
    if places:
        axes.set_xticks(list(places.values()), list(places))
        axes.set_xlim(-0.4, len(places) - 0.6)
    elif log:
        axes.set_xscale("log") if there[0] > 0 else axes.set_xscale("symlog", linthresh=1)
        if len(there) <= TICKS and all(b > NEAR * a for a, b in itertools.pairwise(there)):
            axes.set_xticks(there, [f"{place:g}" for place in there])
            axes.minorticks_off()
            return
        if there[0] > 0 and there[-1] < WIDE * there[0]:
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        else:
            axes.xaxis.set_major_locator(LogLocator(numticks=5))
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif x in ("round", "steps"):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _scale_y(axes: Axes, rows: pd.DataFrame, log: bool) -> None:
    if log and (rows["mean"] > 0).all():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_minor_formatter(NullFormatter())
    elif facet.bounded(rows["metric"].iloc[0]):
        axes.set_ylim(-0.02, 1.04)
    elif (rows["mean"] >= 0).all() and not rows["metric"].iloc[0].startswith("psnr"):
        axes.set_ylim(0, 1.08 * np.nanmax(rows[["mean", "ci_high"]].to_numpy(float)) or 1)
