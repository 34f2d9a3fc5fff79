"""What each client weighs in a round, and how well the model does: a pair of axes per training."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator

from leakbench.drawing import words
from leakbench.drawing.curve import line
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

PLOT, UNDER, ACROSS = 1.5, 0.75, 2
MARKS = ("o", "s", "^", "D", "v", "P")


def curves(result: Result) -> Figure:
    """Weights of clients and test accuracy against the round, for each data set, network and training."""
    rows = result.rows
    rows = rows[(rows["baseline"] == "snapshot") & rows["metric"].isin(["weight", "accuracy"])]
    if rows.empty:
        return nothing(result)
    parts = list(rows.groupby(["dataset", "victim", "training"], sort=False))
    lines = math.ceil(len(parts) / ACROSS)
    height = lines * (PLOT + UNDER) + 0.35

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.2) / (2 * ACROSS)
        for number, ((dataset, _, training), part) in enumerate(parts):
            bottom = height - (number // ACROSS + 1) * (PLOT + UNDER) + 0.45
            for step, paint_one in enumerate((_weights, _accuracy)):
                left = 0.45 + ((number % ACROSS) * 2 + step) * room + 0.1 * step
                axes = body.add_axes((left / WIDTH, bottom / height, (room - 0.62) / WIDTH, PLOT / height))
                paint_one(axes, part)
                axes.set_xlabel("round")
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
                axes.spines[["top", "right"]].set_visible(False)
                if step == 0:
                    axes.set_title(
                        f"{words.dataset(str(dataset))} · {words.training(str(training))}", loc="left"
                    )
        longest = max(body.axes, key=lambda axes: len(axes.get_legend_handles_labels()[0]))
        handles = longest.get_legend_handles_labels()
        body.legend(*handles, loc="lower center", ncols=len(handles[0]), frameon=False)

    counts, rounds, images = (words.listed(sorted(rows[c].unique())) for c in ("n", "rounds", "images"))
    return sheet(
        result, height, f"n = {counts} runs behind each point, of {rounds} rounds over {images} images", paint
    )


def _weights(axes: Axes, rows: pd.DataFrame) -> None:
    rows = rows[rows["metric"] == "weight"]
    for client in sorted(rows["client"].unique()):
        place = int(client) % len(MARKS)
        look = {"color": COLOURS[place], "marker": MARKS[place]}
        line(axes, rows[rows["client"] == client], "round", f"client {client:.0f}", look)
    axes.set(ylabel="weight", ylim=(0, 1))


def _accuracy(axes: Axes, rows: pd.DataFrame) -> None:
    line(axes, rows[rows["metric"] == "accuracy"], "round", "", {"color": INK, "marker": "o"})
    axes.set(ylabel="test accuracy")
