"""What each defence costs and what it saves: the model's accuracy, bytes of an update, labels read out of it."""

import itertools
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.curve import line
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

SHOWN = {
    "accuracy": "accuracy of the model after the last round",
    "update_bytes": "bytes of an update (logarithmic)",
    "label_accuracy": "labels inferred rightly",
}
# Curves that share axes, by the first word of a defence's name; what has no axes of its own joins the last.
FAMILIES = {
    "Gaussian noise": ("gaussian",),
    "Laplacian noise": ("laplacian",),
    "a part of the update": ("prune", "withhold"),
    "others": (),
}
NONE = "none"
CONDITION = ["dataset", "victim", "federation", "attack", "client"]
ROW, LEFT, FOOT = 0.21, 1.75, 0.68
PLOT, BELOW = 1.75, 1.75
GREY = "#8c959f"


def table(result: Result) -> Figure:
    """Draw one line per defence, one axes per metric; below, the accuracy over the rounds, defences of a kind together."""
    rows = result.rows[result.rows["metric"].isin(list(SHOWN))]
    own = rows[rows["baseline"] == ""]
    if own.empty:
        return nothing(result)
    rows = rows.assign(label=_labels(rows))
    own, null = rows[rows["baseline"] == ""], rows[rows["baseline"] == "random-gradient"]
    places = {label: place for place, label in enumerate(dict.fromkeys(own["label"]))}
    metrics = [metric for metric in SHOWN if metric in set(own["metric"])]
    curves = rows[(rows["metric"] == "accuracy") & rows["baseline"].isin(["", "snapshot"])]
    top = ROW * len(places) + FOOT
    height = top + (PLOT + BELOW if len(curves) else 0)

    def paint(body: SubFigure) -> None:
        room = (WIDTH - LEFT - 0.15) / len(metrics)
        for column, metric in enumerate(metrics):
            up = 1 - ROW * len(places) / height
            across = ((LEFT + column * room) / WIDTH, (room - 0.2) / WIDTH)
            axes = body.add_axes((across[0], up, across[1], ROW * len(places) / height))
            _points(axes, own[own["metric"] == metric], null[null["metric"] == metric], places)
            axes.set_xlabel(SHOWN[metric])
            axes.set_yticks(range(len(places)), list(places) if column == 0 else [""] * len(places))
            if metric == "update_bytes":
                axes.set_xscale("log")
        handles, entries = max(
            (axes.get_legend_handles_labels() for axes in body.axes), key=lambda e: len(e[1])
        )
        where = (0.5, 1 - top / height)
        body.legend(handles, entries, loc="lower center", bbox_to_anchor=where, ncols=3, frameon=False)
        if len(curves):
            _over_rounds(body, curves, height)

    return sheet(result, height, f"n = {_counts(own)}", paint)


def _labels(rows: pd.DataFrame) -> pd.Series:
    """Return what a line is called: its defence, and what else of its condition is not the same everywhere."""
    names = rows["defence"].map(words.defence).replace(NONE, "no defence")
    for column in [c for c in CONDITION if c in rows and rows[c].nunique() > 1]:
        names = names + rows[column].map(lambda value: "" if pd.isna(value) else f" · {value}")
    return names


def _points(axes: Axes, own: pd.DataFrame, null: pd.DataFrame, places: dict[str, int]) -> None:
    null = null[null["label"].isin(list(places))]
    if len(null):
        axes.plot(
            null["mean"], null["label"].map(places), ".", color=GREY, label="a random gradient attacked"
        )
    at = own["label"].map(places)
    axes.hlines(at, own["ci_low"], own["ci_high"], color=COLOURS[0], linewidth=1.2)
    axes.plot(own["mean"], at, "o", color=COLOURS[0], markersize=4, label="measured, 95 % interval")
    axes.set_ylim(len(places) - 0.5, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _over_rounds(body: SubFigure, curves: pd.DataFrame, height: float) -> None:
    """Draw the accuracy over rounds at the bottom of the body, one axes for each kind; undefended in all of them."""
    kinds = curves["defence"].str.partition("-")[0]
    named = {kind for family in FAMILIES.values() for kind in family}
    room = (WIDTH - 0.2) / len(FAMILIES)
    plain = curves[kinds == NONE]
    highest = min(1.0, curves["ci_high"].fillna(curves["mean"]).max() * 1.05)
    for column, (title, family) in enumerate(FAMILIES.items()):
        left = (column * room + 0.5) / WIDTH
        axes = body.add_axes((left, (BELOW - 0.3) / height, (room - 0.6) / WIDTH, PLOT / height))
        mine = curves[kinds.isin(family)] if family else curves[~kinds.isin([*named, NONE])]
        for (label, part), colour in zip(mine.groupby("label", sort=False), itertools.cycle(COLOURS)):
            line(axes, part, "round", str(label), _style(colour))
        for label, part in plain.groupby("label", sort=False):
            line(axes, part, "round", str(label), _style(INK))
        axes.set_title(title)
        axes.set_xlabel("round")
        axes.set_ylim(0, highest)
        if column == 0:
            axes.set_ylabel("accuracy of the model")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), frameon=False)


def _style(colour: str) -> dict[str, Any]:
    return {"color": colour, "marker": ""}


def _counts(own: pd.DataFrame) -> str:
    """Return how many models and images are behind the points."""
    units = own.groupby("unit", sort=False)["n"].unique()
    return ", ".join(f"{words.listed(sorted(counts))} {unit}s" for unit, counts in units.items())
