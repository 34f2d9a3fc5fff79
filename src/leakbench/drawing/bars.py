"""Conditions side by side: a mean with its interval for each, and the null baseline beside it."""

import pandas as pd
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

SHOWN = {
    "revealed_cumulative": "samples revealed over all rounds",
    "revealed": "fully revealed samples per update (r ≥ 0.98)",
    "pearson": "correlation of the best reconstruction with its sample",
}
PARTS = ("dataset", "victim", "federation", "defence", "attack")
ROW = 0.3


def _labels(rows: pd.DataFrame) -> pd.Series:
    """Name each row by what varies among the rows."""
    varied = [part for part in PARTS if rows[part].nunique() > 1] or ["victim"]
    spell = {"dataset": words.dataset, "victim": words.victim}
    return rows[varied].apply(lambda row: " · ".join(spell.get(p, str)(row[p]) for p in varied), axis=1)


def conditions(result: Result) -> Figure:
    """Draw, for each metric of SHOWN that the table has, one bar per condition; grey marks are the random gradient."""
    rows = result.rows[result.rows["metric"].isin(list(SHOWN))]
    if rows.empty:
        return nothing(result)
    # Conditions are compared at one size of the local set: the largest that all of them have.
    sizes = rows.groupby([*PARTS])["local_samples"].agg(set)
    rows = rows[rows["local_samples"] == max(set.intersection(*sizes))]
    metrics = [metric for metric in SHOWN if metric in set(rows["metric"])]
    own = rows[rows["baseline"] == ""].assign(label=lambda r: _labels(r))
    null = rows[rows["baseline"] == "random-gradient"].assign(label=lambda r: _labels(r))
    labels = list(dict.fromkeys(own["label"]))
    height = ROW * len(labels) + 0.75

    def paint(body: SubFigure) -> None:
        left, room = 2.3, (WIDTH - 2.6) / len(metrics)
        for column, metric in enumerate(metrics):
            axes = body.add_axes(
                ((left + column * room) / WIDTH, 0.55 / height, (room - 0.3) / WIDTH, (height - 0.6) / height)
            )
            for values, style in ((null, None), (own, COLOURS[0])):
                part = values[values["metric"] == metric].set_index("label").reindex(labels)
                at = range(len(labels))
                if style is None:
                    axes.plot(part["mean"], at, ".", color="#8c959f", markersize=6, zorder=4, clip_on=False)
                    continue
                axes.barh(at, part["mean"], height=0.55, color=style, alpha=0.85, zorder=2)
                axes.hlines(at, part["ci_low"], part["ci_high"], color=INK, linewidth=1.2, zorder=3)
            axes.set_yticks(range(len(labels)), labels if column == 0 else [""] * len(labels))
            axes.set_ylim(len(labels) - 0.5, -0.5)
            axes.set_xlim(left=0)
            axes.grid(axis="y", visible=False)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_xlabel(SHOWN[metric])

    count = sorted(own["n"].unique())
    return sheet(result, height, f"n = {words.listed(count)} updates; grey dots: random gradient", paint)
