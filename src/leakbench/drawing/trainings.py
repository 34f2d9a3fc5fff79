"""Training studies: accuracy of each condition beside the printed one, and curves over the rounds."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from leakbench.drawing import words
from leakbench.drawing.curve import STAR, line
from leakbench.drawing.printed_trainings import CONDITION, printed
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

ROW, LEFT, FOOT = 0.2, 4.6, 0.8
PLOT, UNDER, ACROSS = 1.9, 0.75, 2
KEYS = {"": "", "own": "own key", "other": "another client's key", "random": "random key, initial lock"}
SHOWN = {"accuracy": "test accuracy", "test_loss": "test loss"}
LOOKS: dict[tuple[str, str], dict[str, Any]] = {
    ("none", ""): {"color": INK, "marker": "o"},
    ("key-lock", "own"): {"color": COLOURS[0], "marker": "s"},
    ("key-lock-linear", "own"): {"color": COLOURS[2], "marker": "D"},
    ("key-lock", "random"): {"color": COLOURS[1], "marker": "^"},
}


def accuracies(result: Result, folder: Path) -> Figure:
    """One line per data set, network, training, defence, key and client: measured with its interval, and printed.

    `folder` holds the printed tables. Accuracies are in the thesis' convention.
    """
    rows = _read(result)
    own = rows[
        (rows["metric"] == "accuracy") & (rows["convention"] == "published") & (rows["baseline"] == "")
    ]
    if own.empty:
        return nothing(result)
    own = own.sort_values(
        ["dataset", "victim", "training", "defence"], ascending=[False, *[True] * 3], kind="stable"
    )
    own = own.merge(printed(folder), on=CONDITION, how="left").reset_index(drop=True)
    height = ROW * len(own) + FOOT

    def paint(body: SubFigure) -> None:
        axes = body.add_axes(
            (LEFT / WIDTH, 1 - ROW * len(own) / height, 1 - (LEFT + 0.2) / WIDTH, ROW * len(own) / height)
        )
        axes.hlines(own.index, own["ci_low"], own["ci_high"], color=COLOURS[0], linewidth=1.2)
        axes.plot(own["mean"], own.index, "o", color=COLOURS[0], markersize=4, label="measured")
        axes.plot(own["value"], own.index, linestyle="none", markersize=8, label="printed", **STAR)
        axes.set(
            xlim=(0, 1),
            ylim=(len(own) - 0.5, -0.5),
            xlabel="test accuracy, short batches counted as whole ones",
        )
        axes.set_yticks(own.index, _labels(own))
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        body.legend(*axes.get_legend_handles_labels(), loc="lower center", ncols=2, frameon=False)

    return sheet(result, height, _told(own), paint)


def curves(result: Result) -> Figure:
    """Test accuracy and loss against the round: a pair of axes per data set and network, a curve per defence and key."""
    rows = _read(result)
    rows = rows[rows["metric"].isin(list(SHOWN)) & (rows["baseline"] == "snapshot")]
    if rows.empty:
        return nothing(result)
    pairs = list(rows.groupby(["dataset", "victim", "training"], sort=False))
    lines = math.ceil(len(pairs) * len(SHOWN) / (2 * ACROSS))
    height = lines * (PLOT + UNDER) + 0.3

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.2) / (ACROSS * len(SHOWN))
        for number, (_, part) in enumerate(pairs):
            bottom = height - (number // ACROSS + 1) * (PLOT + UNDER) + 0.45
            for step, metric in enumerate(SHOWN):
                column = (number % ACROSS) * len(SHOWN) + step
                axes = body.add_axes(
                    ((0.45 + column * room) / WIDTH, bottom / height, (room - 0.5) / WIDTH, PLOT / height)
                )
                _curves(axes, part[part["metric"] == metric])
                axes.set(xlabel="round", ylabel=SHOWN[metric])
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
                if step == 0:
                    first = part.iloc[0]
                    axes.set_title(
                        f"{words.dataset(first['dataset'])} · {words.victim(first['victim'])}", loc="left"
                    )
        handles = [Line2D([], [], label=_named(*names), **look) for names, look in LOOKS.items()]
        body.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False)

    return sheet(result, height, _told(rows), paint)


def _curves(axes: Axes, rows: pd.DataFrame) -> None:
    for (defence, key), part in rows.groupby(["defence", "key"], sort=False):
        if look := LOOKS.get((str(defence), str(key))):
            line(axes, part, "round", _named(str(defence), str(key)), look)
    axes.spines[["top", "right"]].set_visible(False)
    if rows["metric"].iloc[0] == "accuracy":
        axes.set_ylim(0, 1)


def _read(result: Result) -> pd.DataFrame:
    return (
        result.rows.fillna({"key": ""}) if "key" in result.rows else result.rows.assign(key="", convention="")
    )


def _named(defence: str, key: str) -> str:
    name = "no lock" if defence == "none" else words.defence(defence)
    return ", ".join(filter(None, [name, KEYS[key]]))


def _labels(rows: pd.DataFrame) -> list[str]:
    """Name each row by data set and network, and by whatever else is not the same everywhere."""
    several = rows["training"].nunique() > 1
    labels = []
    for row in rows.to_dict("records"):
        parts = [words.dataset(row["dataset"]), words.victim(row["victim"])]
        parts += [str(row["training"]).removeprefix("sgd-")] if several else []
        parts.append(_named(row["defence"], row["key"]) if row["client"] != row["client"] else "")
        parts += [f"client {row['client']:.0f}, {KEYS[row['key']]}"] if row["client"] == row["client"] else []
        labels.append(" · ".join(filter(None, parts)))
    return labels


def _told(rows: pd.DataFrame) -> str:
    counts, rounds, images = (words.listed(sorted(rows[c].unique())) for c in ("n", "rounds", "images"))
    return f"n = {counts} runs behind each point, of {rounds} rounds over {images} images"
