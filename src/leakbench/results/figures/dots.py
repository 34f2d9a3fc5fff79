"""Dots with their intervals, and the printed numbers beside them.

Each condition has a line, each metric has a column, and each group has a colour.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from leakbench.results.figures import facet, words
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import SAID, TRIAL, chosen, counted, levels, word
from leakbench.results.figures.sheet import GREY, MUTED, Body

# In inches: a line of one colour, what each further colour adds, a heading, the axis. LETTERS: how many
# letters of a line's name stand beside each other. LETTERS_BELOW: how many letters fit below all panels.
LINE, FURTHER, HEADING, AXIS, LETTERS, LETTERS_BELOW = 0.2, 0.055, 0.3, 0.5, 46, 110


def dots(
    result: Result,
    *,
    metrics: tuple[str, ...],
    y: tuple[str, ...] = ("attack",),
    hue: tuple[str, ...] = (),
    blocks: tuple[str, ...] = (),
    panels: str = "metric",
    where: dict[str, str | float | list[str | float]] | None = None,
    columns: dict[str, dict[str, str | float | list[str | float]]] | None = None,
    text: dict[str, str] | None = None,
    convention: str = "standard",
    against: tuple[str, ...] = (),
    chance: dict[str, float] | None = None,
    level: dict[str, float] | None = None,
    log: tuple[str, ...] = (),
    inked: tuple[str, ...] = (),
    zoom: tuple[str, ...] = (),
    runs: str = "",
    trials: bool = False,
    medians: tuple[str, ...] = (),
    unmeasured: bool = False,
) -> Body | None:
    """Draw a dot with its interval for each condition and metric.

    metrics: the metrics that are drawn.
    y: columns that name a line.
    hue: columns whose values each have a colour.
    blocks: columns whose values are headings above their lines.
    panels: the column whose values have axes side by side.
    where: column → the value, or list of values, of the rows that are drawn.
    columns: new column → how it follows from other columns (`derived` in `drawing/rows.py`).
    text: value → the words that are shown in its place.
    convention: the convention of the rows; a metric without rows of this convention keeps all its rows.
    against: null baselines, drawn as grey marks.
    chance: panel → number of guesses; a line marks their share of the data set's classes.
    level: panel → a value that a line marks; the legend names the panel as a metric.
    log: panels with a logarithmic axis.
    inked: groups that are black, by their words in the legend.
    zoom: panels whose axes need not start at 0.
    runs: the name of a list among the exhibit's facts; its records are single runs, drawn as small dots.
    trials: whether single trials are drawn as small dots.
    medians: metrics of which medians and quartiles are drawn in place of means and intervals.
    unmeasured: whether printed numbers that nothing measured have lines of their own.
    """
    shown_as: Any = {"convention": convention, "medians": medians, "unmeasured": unmeasured}
    baselines = ["", *against, *([TRIAL] if trials else [])]
    rows = chosen(result, metrics, where=where, columns=columns, baselines=baselines, **shown_as)
    if runs:
        rows = pd.concat([rows, _runs(result, runs, metrics)], ignore_index=True)
    if not (rows["baseline"] == "").any():
        return None
    rows = facet.grouped(result, rows, columns, text, block=blocks, line=y, hue=hue)
    own = rows[rows["baseline"].isin(["", *SAID] if unmeasured else [""])]
    rows = rows.merge(own[["block", "line"]].drop_duplicates())
    measured = [metric for metric in metrics if metric in set(own["metric"])]
    shown = measured if panels == "metric" else levels(result, own, panels, columns)
    names = list(dict.fromkeys(own["hue"]))
    palette, markers = facet.colours(names, inked), dict(zip(names, facet.MARKERS, strict=False))
    lined = {str(block): list(part.unique()) for block, part in own.groupby("block", sort=False)["line"]}
    rows = rows.assign(shift=_shifts(own, rows, names))
    # The last block that has a panel says what its axis is.
    ends = dict(zip(rows[panels], rows["block"], strict=True))
    pitch = LINE + FURTHER * (own.groupby(["block", "line"])["hue"].nunique().max() - 1)
    heights = [pitch * len(lines) + HEADING for lines in lined.values()]
    entries = facet.keyed(palette, markers, "color") + facet.compared(rows)
    if chance and result.facts.get("classes"):
        entries.append(facet.entry("chance", color=GREY, linestyle=":"))
    for metric, value in (level or {}).items():
        label = f"{words.called('metric', metric)} by chance: {value:g}"
        entries.append(facet.entry(label, color=MUTED, linestyle="--", linewidth=1))

    def mark(axes: Axes, block: str, value: Any) -> None:
        part = rows[(rows["block"] == block) & (rows[panels] == value)]
        lines, first, last = lined[block], value == shown[0], block == ends[value]
        if part.empty and not first:
            axes.set_axis_off()
            return
        classes = result.facts.get("classes", {}).get(part["dataset"].iloc[0] if len(part) else "")
        if chance and value in chance and classes:
            axes.axvline(chance[value] / classes, color=GREY, linestyle=":", linewidth=1.4)
        if level and value in level:
            axes.axvline(level[value], color=MUTED, linestyle="--", linewidth=1)
        place = part["line"].map({line: place for place, line in enumerate(lines)}).astype(float)
        _dots(axes, part.assign(place=place + part["shift"]), palette, markers)
        axes.set(xlabel="", ylabel="", ylim=(len(lines) - 0.5, -0.5))
        axes.set_yticks(range(len(lines)), [textwrap.fill(line, LETTERS) if first else "" for line in lines])
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelbottom=last, length=2 if last else 0)
        axes.spines["left"].set_visible(False)
        axes.spines["bottom"].set_visible(last)
        if block and first:
            axes.set_title(block, fontsize=8, fontweight="bold", x=0)
        if last:
            _limits(axes, value, log, zoom)
            letters = LETTERS_BELOW // len(shown)
            axes.set_xlabel(textwrap.fill(word(result, panels, value, text), letters))

    parts = [(block, value) for block in lined for value in shown]
    note = counted(rows, medians=medians) + _small(own, TRIAL in set(rows["baseline"]))
    place: Any = {"heights": heights, "across": len(shown), "below": AXIS + facet.legend_height(entries)}
    return facet.faceted(mark, parts, note, entries=entries, sharex="col", **place)


def _shifts(own: pd.DataFrame, rows: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Return how far each row stands below the middle of its line."""
    found: dict[tuple[str, ...], float] = {}
    for (block, line), part in own.groupby(["block", "line"], sort=False):
        there = [name for name in names if name in set(part["hue"])]
        step = min(0.7 / len(there), 0.24)
        for number, name in enumerate(there):
            found[str(block), str(line), name] = (number - (len(there) - 1) / 2) * step
    keys = rows[["block", "line", "hue"]].itertuples(index=False, name=None)
    return pd.Series([found.get(key, 0.0) for key in keys], rows.index)


def _dots(axes: Axes, rows: pd.DataFrame, palette: Mapping[str, Any], markers: dict[str, str]) -> None:
    """Draw measured dots with their intervals, and the marks with which they are compared."""
    own = rows[rows["baseline"].isin(["", TRIAL])]
    several = bool(own["client"].isna().any())
    own = own.assign(faint=(own["client"].notna() & several) | (own["baseline"] == TRIAL))
    whole = own[~own["faint"]]
    ends = whole["place"], whole["ci_low"], whole["ci_high"]
    axes.hlines(*ends, color=list(whole["hue"].map(palette)), linewidth=1.2, zorder=2)
    sizes = {"size": "faint", "sizes": {True: 9, False: 24}}
    look = {"hue": "hue", "palette": palette, "style": "hue", "markers": markers, "linewidth": 0, "zorder": 3}
    facet.scatter(axes, own, "mean", "place", **sizes, **look)
    facet.compare(axes, rows, "mean", "place", palette)


def _limits(axes: Axes, value: Any, log: Sequence[str], zoom: Sequence[str]) -> None:
    """Set the range of values that a column of axes shows, once its last dots are drawn."""
    if value in log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif value not in zoom and facet.bounded(value):
        axes.set_xlim(-0.02, 1.03)
    elif value not in zoom and axes.get_xlim()[0] > 0 and not str(value).startswith("psnr"):
        axes.set_xlim(left=0)


def _small(own: pd.DataFrame, runs: bool) -> str:
    """Return what the small print says of several dots of one group in one line."""
    if runs:
        return "; small dots: single runs"
    clients = own.groupby(["block", "line", "hue", "metric"])["client"]
    if ((clients.count() > 0) & (clients.size() > clients.count())).any():
        return "; small dots: single clients"
    return "; each client has a dot of its own" if (clients.nunique() > 1).any() else ""


def _runs(result: Result, key: str, metrics: Sequence[str]) -> pd.DataFrame:
    """Return the records of an exhibit's list as rows of the baseline TRIAL, and their means."""
    records = pd.DataFrame(result.facts.get(key, []))
    if records.empty:
        return records
    conditions = ["dataset", "victim", "training", "defence"]
    found = [m for m in metrics if m in records and m not in set(result.rows["metric"])]
    long = records.melt(conditions, found, var_name="metric", value_name="mean").dropna(subset="mean")
    means = long.groupby([*conditions, "metric"], as_index=False, sort=False)
    whole = means["mean"].agg(["mean", "size"]).rename(columns={"size": "n"}).assign(baseline="", unit="run")
    return pd.concat([long.assign(baseline=TRIAL), whole])
