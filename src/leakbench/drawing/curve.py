"""Curves of revealed samples: against the size of the local set, and against the victim's training."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, FAINT, INK, MUTED, WIDTH, nothing, sheet

HEIGHT = 3.9
HUES = dict(zip(words.ACTIVATIONS, (COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[4]), strict=True))
MARKERS = dict(zip(words.ACTIVATIONS, "osD^", strict=True))
AXES = {
    "revealed": "fully revealed samples per update (r ≥ 0.98)",
    "revealed_fraction": "revealed share of the local set",
}
NULL = "random-gradient"


def look(victim: str) -> dict[str, Any]:
    """Colour and marker of a victim tell its activation, a dashed line its dropout."""
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
    axes: Axes, rows: pd.DataFrame, x: str, label: str, style: Mapping[str, Any], shift: float = 1.0
) -> None:
    """One curve of means with its 95 % band. `shift` moves it along a logarithmic axis, so that bands stay readable."""
    rows = rows.sort_values(x)
    at = rows[x].to_numpy(float) * shift
    axes.plot(
        at, rows["mean"], label=label, linewidth=1.4, markersize=3.6, markeredgewidth=1, zorder=3, **style
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

    def paint(body: SubFigure) -> None:
        for axes, metric in zip(_pair(body), AXES, strict=True):
            part = rows[rows["metric"] == metric]
            sizes = sorted(part["local_samples"].unique())
            _null(axes, part, "local_samples")
            for name in victims:
                own = part[(part["victim"] == name) & (part["baseline"] == "")]
                line(axes, own, "local_samples", words.victim(name), look(name))
            _everything(axes, sizes, metric)
            points = [(k, y if metric == "revealed" else y / k) for k, y in published]
            for k, y in points:
                axes.plot(
                    k,
                    y,
                    marker="*",
                    markersize=12,
                    color="white",
                    markeredgecolor=INK,
                    linestyle="none",
                    zorder=5,
                )
                axes.annotate(
                    "published",
                    (k, y),
                    xytext=(0, 8),
                    textcoords="offset points",
                    ha="center",
                    fontsize=7,
                    zorder=5,
                )
            _size_axis(axes, sizes)
            _height(axes, part, metric, [y for _, y in points])
        _legend(
            body,
            [_entry(words.victim(name), **look(name)) for name in victims],
            result,
            rows,
            bool(published),
        )

    return sheet(result, HEIGHT + 0.2 * ((len(victims) + 6) // 4), _n(rows), paint)


def revealed_by_reading(result: Result) -> Figure:
    """Revealed samples against local samples, one curve per reading of what the paper leaves open."""
    rows = result.rows[result.rows["metric"].isin(list(AXES))]
    if rows.empty:
        return nothing(result)
    readings = list(dict.fromkeys(zip(rows["victim"], rows["federation"], strict=True)))
    readings.sort(key=lambda reading: (len("".join(reading)), reading))
    markers = "osD^vP"
    styles = {
        reading: {
            "color": COLOURS[i % 6],
            "marker": markers[i % 6],
            "linestyle": "-" if i == 0 else (0, (3, 1.5)),
        }
        for i, reading in enumerate(readings)
    }
    names = {(v, f): f"{words.victim(v)} · {f}" for v, f in readings}

    def paint(body: SubFigure) -> None:
        for axes, metric in zip(_pair(body), AXES, strict=True):
            part = rows[rows["metric"] == metric]
            sizes = sorted(part["local_samples"].unique())
            _null(axes, part, "local_samples")
            for i, reading in enumerate(readings):
                own = part[
                    (part["victim"] == reading[0])
                    & (part["federation"] == reading[1])
                    & (part["baseline"] == "")
                ]
                shift = 1 + 0.03 * (i - (len(readings) - 1) / 2)
                line(axes, own, "local_samples", names[reading], styles[reading], shift)
            _everything(axes, sizes, metric)
            _size_axis(axes, sizes)
            _height(axes, part, metric, [])
        _legend(body, [_entry(names[r], **styles[r]) for r in readings], result, rows, False, columns=2)

    return sheet(result, HEIGHT + 0.2 * ((len(readings) + 4) // 2), _n(rows), paint)


def revealed_by_training(result: Result) -> Figure:
    """Revealed samples and share against the training epoch of the victim, one curve per victim."""
    rows = result.rows[result.rows["metric"].isin(list(AXES))]
    if rows.empty:
        return nothing(result)
    sizes = sorted(rows["local_samples"].unique())
    largest = max(sizes)
    rows = rows[rows["local_samples"] == largest]
    victims = sorted(rows["victim"].unique(), key=_rank)

    def paint(body: SubFigure) -> None:
        for axes, metric in zip(_pair(body), AXES, strict=True):
            part = rows[rows["metric"] == metric]
            epochs = sorted(part["checkpoint"].unique())
            _null(axes, part, "checkpoint")
            for name in victims:
                own = part[(part["victim"] == name) & (part["baseline"] == "")]
                line(axes, own, "checkpoint", words.victim(name), look(name))
            axes.axhline(largest if metric == "revealed" else 1, color=MUTED, linewidth=1, zorder=1)
            axes.set_xscale("symlog", linthresh=1, linscale=0.5)
            axes.xaxis.set_major_locator(FixedLocator(epochs))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticklabels([f"{epoch:g}" for epoch in epochs])
            axes.set_xlabel("epochs of training behind the victim (0: initial weights)")
            label = AXES[metric]
            axes.set_ylabel(f"{label}, of {largest:g}" if metric == "revealed" else label)
            axes.set_ylim(0, (largest if metric == "revealed" else 1) * 1.06)
        _legend(body, [_entry(words.victim(name), **look(name)) for name in victims], result, rows, False)

    return sheet(result, HEIGHT + 0.2, _n(rows), paint)


def _rank(victim: str) -> tuple[int, bool, str]:
    parts = victim.split("-")
    order = next((i for i, a in enumerate(words.ACTIVATIONS) if a in parts), len(words.ACTIVATIONS))
    return order, "dropout" in parts, victim


def _pair(body: SubFigure) -> list[Axes]:
    height = body.bbox.height / body.figure.dpi
    bottom = height - HEIGHT + 0.85
    span = (HEIGHT - 1.0) / height
    axes = [body.add_axes((x / WIDTH, bottom / height, 3.75 / WIDTH, span)) for x in (0.65, 5.0)]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.tick_params(length=3, width=0.7, left=True, bottom=True)
    return axes


def _null(axes: Axes, rows: pd.DataFrame, x: str) -> None:
    null = rows[rows["baseline"] == NULL]
    axes.plot(
        null[x],
        null["mean"],
        linestyle="none",
        marker=".",
        markersize=4,
        color="#8c959f",
        zorder=4,
        label=NULL,
    )


def _everything(axes: Axes, sizes: Sequence[float], metric: str) -> None:
    axes.plot(
        sizes,
        sizes if metric == "revealed" else [1.0] * len(sizes),
        color=MUTED,
        linewidth=1,
        zorder=1,
        label="k",
    )


def _size_axis(axes: Axes, sizes: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{size:g}" for size in sizes])
    axes.set_xlabel("private samples in the local set, k (logarithmic)")


def _height(axes: Axes, rows: pd.DataFrame, metric: str, extra: Sequence[float]) -> None:
    axes.set_ylabel(AXES[metric])
    highest = max([1.0, *rows["ci_high"].fillna(rows["mean"]), *extra])
    axes.set_ylim(*((0, highest * 1.18) if metric == "revealed" else (0, 1.06)))


def _entry(label: str, **style: Any) -> Line2D:
    return Line2D([], [], label=label, linewidth=1.4, markersize=4, **style)


def _legend(
    body: SubFigure,
    entries: list[Line2D],
    result: Result,
    rows: pd.DataFrame,
    published: bool,
    columns: int = 4,
) -> None:
    if len(entries) % 2 == 0 and columns == 4 and len(entries) > 4:
        # Legends fill by column; this order puts each activation above its own dropout variant.
        columns = len(entries) // 2
    entries = [*entries]
    if (rows["baseline"] == NULL).any():
        entries.append(
            _entry("null: attack on a random gradient", color="#8c959f", marker=".", linestyle="none")
        )
    entries.append(Line2D([], [], color=MUTED, linewidth=1, label="everything revealed"))
    entries.append(Line2D([], [], color=INK, alpha=0.18, linewidth=6, label="95 % interval of the mean"))
    if published:
        entries.append(_entry("published", color="white", marker="*", markeredgecolor=INK, linestyle="none"))
    body.legend(
        handles=entries, loc="lower center", ncols=columns, frameon=False, bbox_to_anchor=(0.5, 0.0),
        columnspacing=1.6, handlelength=2.6, labelspacing=0.45, edgecolor=FAINT,
    )  # fmt: skip


def _n(rows: pd.DataFrame) -> str:
    counts = sorted(rows.loc[rows["baseline"] == "", "n"].unique())
    null = sorted(rows.loc[rows["baseline"] == NULL, "n"].unique())
    text = f"n = {_range(counts)} updates behind each point"
    return text + (f" (null: {_range(null)})" if null else "")


def _range(counts: Sequence[float]) -> str:
    if not counts:
        return "0"
    return f"{counts[0]:g}" if counts[0] == counts[-1] else f"{counts[0]:g} to {counts[-1]:g}"
