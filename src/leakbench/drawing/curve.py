"""Curves of revealed samples: against the size of the local set, and against the victim's training."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, MUTED, WIDTH, nothing, sheet

PLOT = 2.9
LINE = 0.19
GREY = "#8c959f"
HUES = dict(zip(words.ACTIVATIONS, (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[4]), strict=True))
MARKERS = dict(zip(words.ACTIVATIONS, "osD^", strict=True))
STAR: dict[str, Any] = {"marker": "*", "color": "white", "markeredgecolor": INK}
AXES = {
    "revealed": "fully revealed samples per update (r ≥ 0.98)",
    "revealed_fraction": "revealed share of the local set",
}
NULL = "random-gradient"


def look(victim: str) -> dict[str, Any]:
    """Colour and marker of a victim tell its activation; dashes and an open marker tell dropout."""
    parts = victim.split("-")
    activation = next((a for a in words.ACTIVATIONS if a in parts), "")
    dropout = "dropout" in parts
    colour = HUES.get(activation, INK)
    return {
        "color": colour,
        "marker": MARKERS.get(activation, "v"),
        "linestyle": (0, (3, 1.5)) if dropout else "-",
        "markerfacecolor": "white" if dropout else colour,
    }


def line(
    axes: Axes, rows: pd.DataFrame, x: str, label: str, style: Mapping[str, Any], shift: float = 1
) -> None:
    """One curve of means with its 95 % band; `shift` moves it along a logarithmic axis."""
    rows = rows.sort_values(x)
    at = rows[x].to_numpy(float) * shift
    axes.plot(
        at,
        rows["mean"],
        label=label,
        linewidth=1.4,
        markersize=3.8,
        markeredgewidth=1,
        zorder=3,
        clip_on=False,
        **style,
    )
    band = rows["ci_low"].to_numpy(float), rows["ci_high"].to_numpy(float)
    axes.fill_between(at, *band, color=style["color"], alpha=0.18, linewidth=0, zorder=2)


def revealed_by_size(result: Result, published: Sequence[tuple[float, float]] = ()) -> Figure:
    """Figures 13 and 14: revealed samples against local samples, one curve per victim; beside it the share.

    published: points (local samples, revealed samples) that the paper prints.
    """
    rows = result.rows[result.rows["metric"].isin(list(AXES))]
    if rows.empty:
        return nothing(result)
    victims = sorted(rows["victim"].unique(), key=_rank)
    columns = math.ceil(len(victims) / 2) if len(victims) > 4 else max(len(victims), 1)

    def paint(body: SubFigure) -> None:
        for axes, metric in zip(_pair(body), AXES, strict=True):
            part = rows[rows["metric"] == metric]
            _null(axes, part, "local_samples")
            for name in victims:
                own = part[(part["victim"] == name) & (part["baseline"] == "")]
                line(axes, own, "local_samples", words.victim(name), look(name))
            sizes = sorted(part["local_samples"].unique())
            _everything(axes, sizes, metric)
            points = [(k, y if metric == "revealed" else y / k) for k, y in published]
            _published(axes, points, metric)
            _size_axis(axes, sizes)
            _height(axes, part, metric, [y for _, y in points])
        _legends(body, [_entry(words.victim(v), **look(v)) for v in victims], columns, rows, bool(published))

    return sheet(result, _tall(len(victims), columns), _n(rows), paint)


def revealed_by_reading(result: Result) -> Figure:
    """Revealed samples against local samples, one curve per reading of what the paper leaves open."""
    rows = result.rows[result.rows["metric"].isin(list(AXES))]
    if rows.empty:
        return nothing(result)
    readings = sorted(
        {*zip(rows["victim"], rows["federation"], strict=True)}, key=lambda r: (len(r[0] + r[1]), r)
    )
    styles = {
        reading: {"color": colour, "marker": marker, "linestyle": dashes}
        for reading, colour, marker, dashes in zip(
            readings, COLOURS * 2, "osD^vP" * 4, ["-", *[(0, (3, 1.5))] * 19], strict=False
        )
    }
    names = {(v, f): f"{words.victim(v)} · {f}" for v, f in readings}

    def paint(body: SubFigure) -> None:
        for axes, metric in zip(_pair(body), AXES, strict=True):
            part = rows[rows["metric"] == metric]
            _null(axes, part, "local_samples")
            for i, reading in enumerate(readings):
                mine = (part["victim"] == reading[0]) & (part["federation"] == reading[1])
                shift = 1 + 0.03 * (i - (len(readings) - 1) / 2)
                own = part[mine & (part["baseline"] == "")]
                line(axes, own, "local_samples", names[reading], styles[reading], shift)
            sizes = sorted(part["local_samples"].unique())
            _everything(axes, sizes, metric)
            _size_axis(axes, sizes)
            _height(axes, part, metric)
        _legends(body, [_entry(names[r], **styles[r]) for r in readings], 2, rows, False)

    return sheet(result, _tall(len(readings), 2), _n(rows), paint)


def revealed_by_training(result: Result) -> Figure:
    """Revealed samples of the largest local set against the training epoch, one curve per victim."""
    rows = result.rows[result.rows["metric"].isin(list(AXES))]
    if rows.empty:
        return nothing(result)
    size = rows["local_samples"].max()
    rows = rows[rows["local_samples"] == size]
    victims = sorted(rows["victim"].unique(), key=_rank)

    def paint(body: SubFigure) -> None:
        for axes, metric in zip(_pair(body), AXES, strict=True):
            part = rows[rows["metric"] == metric]
            _null(axes, part, "checkpoint")
            for name in victims:
                own = part[(part["victim"] == name) & (part["baseline"] == "")]
                line(axes, own, "checkpoint", words.victim(name), look(name))
            whole = size if metric == "revealed" else 1
            axes.axhline(whole, color=MUTED, linewidth=1, zorder=1, gid="everything")
            _epoch_axis(axes, sorted(part["checkpoint"].unique()))
            axes.set_ylabel(AXES[metric] + (f", of {size:g}" if metric == "revealed" else ""))
            axes.set_ylim(0, whole * 1.06)
        _legends(body, [_entry(words.victim(name), **look(name)) for name in victims], 4, rows, False)

    return sheet(result, _tall(len(victims), 4), _n(rows), paint)


def _epoch_axis(axes: Axes, epochs: Sequence[float]) -> None:
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.xaxis.set_major_locator(FixedLocator(list(epochs)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{epoch:g}" for epoch in epochs])
    axes.set_xlabel("epochs of training behind the victim (0: initial weights)")
    # A symmetric logarithm would leave room for negative epochs.
    axes.set_xlim(min(epochs) - 0.15 if min(epochs) < 1 else min(epochs) * 0.85, max(epochs) * 1.15)


def _rank(victim: str) -> tuple[int, bool, str]:
    parts = victim.split("-")
    order = next((i for i, a in enumerate(words.ACTIVATIONS) if a in parts), len(words.ACTIVATIONS))
    return order, "dropout" in parts, victim


def _pair(body: SubFigure) -> list[Axes]:
    """Two axes side by side at the top of the body; the legends take the rest."""
    height = body.bbox.height / body.figure.dpi
    axes = [
        body.add_axes((x / WIDTH, 1 - (PLOT + 0.1) / height, 3.75 / WIDTH, PLOT / height))
        for x in (0.65, 5.0)
    ]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(length=3, width=0.7, left=True, bottom=True)
    return axes


def _null(axes: Axes, rows: pd.DataFrame, x: str) -> None:
    null = rows[rows["baseline"] == NULL]
    axes.plot(
        null[x], null["mean"], linestyle="none", color=GREY, marker=".", markersize=5, zorder=4, clip_on=False
    )


def _everything(axes: Axes, sizes: Sequence[float], metric: str) -> None:
    # Straight between the measured sizes, as the curves are, so that no curve seems to cross it.
    whole = list(sizes) if metric == "revealed" else [1.0] * len(sizes)
    axes.plot(sizes, whole, color=MUTED, linewidth=1, zorder=1, gid="everything")


def _published(axes: Axes, points: Sequence[tuple[float, float]], metric: str) -> None:
    # Counts rise to the left of their peak and shares fall to the right: the label stands where no curve goes.
    offset, align = ((7, -11), "left") if metric == "revealed" else ((2, -14), "right")
    for k, y in points:
        axes.plot(k, y, linestyle="none", **STAR, markersize=12, zorder=5)
        axes.annotate("published", (k, y), offset, textcoords="offset points", ha=align, fontsize=7, zorder=5)


def _size_axis(axes: Axes, sizes: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{size:g}" for size in sizes])
    axes.set_xlabel("private samples in the local set, k (logarithmic)")


def _height(axes: Axes, rows: pd.DataFrame, metric: str, extra: Sequence[float] = ()) -> None:
    axes.set_ylabel(AXES[metric])
    highest = max([1.0, *rows["ci_high"].fillna(rows["mean"]), *extra])
    axes.set_ylim(0, highest * 1.18 if metric == "revealed" else 1.06)


def _entry(label: str, **style: Any) -> Line2D:
    return Line2D([], [], label=label, **{"linewidth": 1.4, "markersize": 4.5} | style)


def _legends(
    body: SubFigure, curves: list[Line2D], columns: int, rows: pd.DataFrame, published: bool
) -> None:
    """The curves above, what they are compared with below."""
    height = body.bbox.height / body.figure.dpi
    frame: dict[str, Any] = {
        "frameon": False,
        "loc": "upper center",
        "columnspacing": 1.8,
        "handlelength": 2.6,
        "labelspacing": 0.4,
    }
    y = 1 - (PLOT + 0.58) / height
    body.legend(handles=curves, ncols=columns, bbox_to_anchor=(0.5, y), **frame)
    entries = [
        _entry("null: a random gradient attacked", color=GREY, marker=".", linestyle="none", markersize=6)
    ]
    entries = entries if (rows["baseline"] == NULL).any() else []
    entries.append(_entry("everything revealed", color=MUTED, linewidth=1))
    entries.append(_entry("95 % interval of the mean", color=INK, alpha=0.18, linewidth=6))
    if published:
        entries.append(_entry("published", linestyle="none", **STAR, markersize=9))
    y -= LINE * math.ceil(len(curves) / columns) / height
    body.legend(handles=entries, ncols=4, bbox_to_anchor=(0.5, y), **frame)


def _tall(curves: int, columns: int) -> float:
    return PLOT + 0.58 + LINE * (math.ceil(curves / columns) + 1) + 0.05


def _n(rows: pd.DataFrame) -> str:
    counts = sorted(rows.loc[rows["baseline"] == "", "n"].unique())
    null = sorted(rows.loc[rows["baseline"] == NULL, "n"].unique())
    text = f"n = {_range(counts)} updates behind each point"
    return text + (f" (null: {_range(null)})" if null else "")


def _range(counts: Sequence[float]) -> str:
    if not counts:
        return "0"
    return f"{counts[0]:g}" if counts[0] == counts[-1] else f"{counts[0]:g} to {counts[-1]:g}"
