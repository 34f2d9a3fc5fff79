"""Training studies that read words: word accuracy over the rounds, a pair of axes for each test set."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from leakbench.drawing import words
from leakbench.drawing.curve import line
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

PLOT, UNDER, ACROSS = 1.9, 0.75, 3
ENTRY, ENTRIES = 0.2, 3
MARKERS = ("o", "s", "^", "D", "v", "P")
PREFIX = "text-"


def read_words(result: Result) -> Figure:
    """Word accuracy against the round, over all words of a test set: axes for each set, a curve for each way to train."""
    rows = result.rows
    if "tested" in rows:
        rows = rows[(rows["metric"] == "accuracy") & (rows["baseline"] == "snapshot")]
    if rows.empty:
        return nothing(result)
    tests = list(dict.fromkeys(rows["tested"]))
    ways = list(rows[["dataset", "training", "defence"]].drop_duplicates().itertuples(index=False, name=None))
    looks = dict(zip(ways, _looks(), strict=False))
    lines = math.ceil(len(tests) / ACROSS)
    foot = ENTRY * math.ceil(len(ways) / ENTRIES) + 0.15
    height = lines * (PLOT + UNDER) + foot

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.2) / ACROSS
        for number, tested in enumerate(tests):
            bottom = height - (number // ACROSS + 1) * (PLOT + UNDER) + 0.45
            left = 0.5 + (number % ACROSS) * room
            axes = body.add_axes((left / WIDTH, bottom / height, (room - 0.6) / WIDTH, PLOT / height))
            own = rows[rows["tested"] == tested]
            for way, part in own.groupby(["dataset", "training", "defence"], sort=False):
                line(axes, part, "round", _named(*way), looks[way])
            axes.set(xlabel="round", ylabel="word accuracy" if number % ACROSS == 0 else "", ylim=(0, 1))
            axes.set_title(f"read from {words.dataset(str(tested))}", loc="left")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.spines[["top", "right"]].set_visible(False)
        handles = [Line2D([], [], label=_named(*way), **look) for way, look in looks.items()]
        body.legend(handles=handles, loc="lower center", ncols=ENTRIES, frameon=False)

    return sheet(result, height, _told(rows), paint)


def _looks() -> Iterator[dict[str, Any]]:
    """Endless looks of curves: each colour and marker once before a colour comes again, then with dashes."""
    colours = [INK, *COLOURS]
    for number in itertools.count():
        style = ("-", "--", ":")[number // len(colours) % 3]
        marker = MARKERS[number % len(MARKERS)]
        yield {"color": colours[number % len(colours)], "marker": marker, "linestyle": style}


def _named(dataset: str, training: str, defence: str) -> str:
    name = f"{words.dataset(dataset)}, {str(training).removeprefix(PREFIX)}"
    return name if defence == "none" else f"{name}, {words.defence(defence)}"


def _told(rows: pd.DataFrame) -> str:
    counts, rounds, images = (words.listed(sorted(rows[c].unique())) for c in ("n", "rounds", "images"))
    return f"n = {counts} runs behind each curve, of {rounds} rounds over {images} images; all words count, also narrow ones"
