"""Errors during an attack: what of the image and of the gradient is still wrong, against the share of its steps taken."""

import itertools
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.curve import line
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

SHOWN = {"mse": "MSE of images", "gradient_mse": "MSE of gradients"}
# GRNN's curves are solid, DLG's dashed, as in the thesis.
STYLES: dict[str, Any] = {"grnn": "-", "dlg": (0, (3, 1.5))}
NONE = "none"
CELL = ["dataset", "victim", "federation", "defence", "attack", "metric"]
PLOT, HEAD, FOOT = 1.55, 0.62, 0.85


def curves(result: Result) -> Figure:
    """Draw a row of axes for each data set and metric, one axes for each batch size, or for each kind of noise.

    Curves are attacks, and levels of noise by colour; the undefended stands beside every kind.
    """
    rows = result.rows[
        result.rows["metric"].isin(list(SHOWN)) & result.rows["baseline"].isin(["", "snapshot"])
    ]
    if rows.empty or "iterations" not in rows:
        return nothing(result)
    rows = rows.assign(
        share=rows["iterations"] / rows.groupby(CELL)["iterations"].transform("max"),
        kind=rows["defence"].str.partition("-")[0],
    )
    kinds = [kind for kind in rows["kind"].unique() if kind != NONE]
    panels = (
        {words.defence(kind).partition(" of ")[0]: rows["kind"].isin([kind, NONE]) for kind in kinds}
        if kinds
        else {_batch(size): rows["local_samples"] == size for size in sorted(rows["local_samples"].unique())}
    )
    lines = list(itertools.product(rows["dataset"].unique(), [m for m in SHOWN if m in set(rows["metric"])]))
    levels = [level for level in rows["defence"].unique() if level != NONE]
    scales = list(dict.fromkeys(_level(level) for level in levels))
    colours = {NONE: INK} | {level: COLOURS[scales.index(_level(level))] for level in levels}
    if not levels:
        colours = {NONE: COLOURS[0]}
    height = (PLOT + HEAD) * len(lines) + FOOT

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.2) / len(panels)
        entries: dict[str, Any] = {}
        for (down, (dataset, metric)), (across, (title, chosen)) in itertools.product(
            enumerate(lines), enumerate(panels.items())
        ):
            part = rows[chosen & (rows["dataset"] == dataset) & (rows["metric"] == metric)]
            if part.empty:
                continue
            place = ((0.65 + across * room) / WIDTH, 1 - (PLOT + HEAD) * (down + 1) / height)
            axes = body.add_axes((*place, (room - 0.8) / WIDTH, PLOT / height))
            for (defence, attack), own in part.groupby(["defence", "attack"], sort=False):
                style = {"color": colours[defence], "marker": "", "linestyle": STYLES.get(attack, ":")}
                line(axes, own, "share", _name(attack, defence, bool(levels)), style)
            _frame(axes, f"{words.dataset(dataset)}, {title}", metric)
            entries |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        body.legend(
            list(entries.values()),
            list(entries),
            loc="lower center",
            ncols=min(4, len(entries)),
            frameon=False,
        )

    counts = sorted(rows["n"].unique())
    lengths = rows[rows["baseline"] == ""].groupby("attack")["iterations"].max()
    steps = ", ".join(f"{words.attack(str(name))} {count:,.0f}" for name, count in lengths.items())
    return sheet(
        result, height, f"n = {words.listed(counts)} images; steps: {steps}; bands: 95 % interval", paint
    )


def _batch(size: float) -> str:
    return "single images" if size == 1 else f"batches of {size:g}"


def _level(defence: str) -> str:
    """Return the scale of a noise as its name tells it."""
    return defence.partition("-")[2] or "1e-1"


def _name(attack: str, defence: str, several: bool) -> str:
    if not several:
        return words.attack(attack)
    return f"{words.attack(attack)}, {'no noise' if defence == NONE else f'noise of {_level(defence)}'}"


def _frame(axes: Axes, title: str, metric: str) -> None:
    axes.set_yscale("log")
    axes.set_title(title)
    axes.set_xlim(0, 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel(SHOWN[metric])
    axes.set_xlabel("share of the steps taken")
