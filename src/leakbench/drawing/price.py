"""What each defence costs and what it saves: the model's accuracy, bytes of an update, images read out of it."""

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
    "accuracy": "accuracy after the last round",
    "update_bytes": "bytes of an update (logarithmic)",
    "revealed_fraction": "images fully revealed by Fidel",
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
PLOT, UNDER, ENTRY = 1.75, 0.75, 0.165
GREY = "#8c959f"


def table(result: Result) -> Figure:
    """Draw one line per defence, one axes per metric; below, the accuracy over the rounds, defences of a kind together."""
    rows = result.rows[result.rows["metric"].isin(list(SHOWN))]
    own = rows[rows["baseline"] == ""]
    if own.empty:
        return nothing(result)
    rows = rows.assign(label=_labels(rows)).sort_values(
        "defence", key=lambda names: names != NONE, kind="stable"
    )
    own, null = rows[rows["baseline"] == ""], rows[rows["baseline"] == "random-gradient"]
    places = {label: place for place, label in enumerate(dict.fromkeys(own["label"]))}
    metrics = [metric for metric in SHOWN if metric in set(own["metric"])]
    curves = rows[(rows["metric"] == "accuracy") & rows["baseline"].isin(["", "snapshot"])]
    top = ROW * len(places) + FOOT
    shared = _families(curves) if len(curves) else {}
    below = UNDER + ENTRY * max(part["label"].nunique() for part in shared.values()) if shared else 0
    height = top + (PLOT + below if shared else 0)

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
        if shared:
            _over_rounds(body, shared, below, height)

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


def _families(curves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the curves of each axes, by its title: defences of a kind, and the undefended last."""
    kinds = curves["defence"].str.partition("-")[0]
    named = {NONE, *itertools.chain.from_iterable(FAMILIES.values())}
    return {
        title: pd.concat(
            [curves[kinds.isin(family) if family else ~kinds.isin(named)], curves[kinds == NONE]]
        )
        for title, family in FAMILIES.items()
    }


def _over_rounds(body: SubFigure, shared: dict[str, pd.DataFrame], below: float, height: float) -> None:
    """Draw the accuracy over rounds at the bottom of the body, `below` inches above its edge: one axes for each kind."""
    room = (WIDTH - 0.2) / len(shared)
    every = pd.concat(shared.values())
    highest = min(1.0, every["ci_high"].fillna(every["mean"]).max() * 1.05)
    for column, (title, curves) in enumerate(shared.items()):
        place = ((column * room + 0.5) / WIDTH, (below - 0.15) / height)
        axes = body.add_axes((*place, (room - 0.6) / WIDTH, (PLOT - 0.1) / height))
        colours = itertools.cycle(COLOURS)
        for label, part in curves.groupby("label", sort=False):
            plain = part["defence"].iloc[0] == NONE
            line(axes, part, "round", str(label), _style(INK if plain else next(colours)))
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
    told = [
        f"{words.listed(sorted(counts))} {unit}{'' if max(counts) == 1 else 's'}"
        for unit, counts in units.items()
    ]
    return f"{' and '.join(told)} behind each point"
