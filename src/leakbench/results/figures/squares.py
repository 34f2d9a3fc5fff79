"""A map of squares for each metric, with one condition down, another across, and a number in each square."""

from typing import Any

import seaborn as sns
from matplotlib.figure import SubFigure

from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import chosen, counted, levels, word
from leakbench.results.figures.sheet import Body

SQUARE, HEAD, FOOT = 0.4, 0.5, 0.5


def squares(
    result: Result, *, metrics: tuple[str, ...], down: str, across: str, text: dict[str, str] | None = None
) -> Body | None:
    """Draw a map for each metric, with the mean in each square.

    An empty square was not measured.

    metrics: the metrics that are drawn; their maps stand side by side.
    down: the column whose values are the rows of a map.
    across: the column whose values are the columns of a map.
    text: value → the words that are shown in its place. The name of the column `across` → the words below
    the axis.
    """
    rows = chosen(result, metrics)
    if rows.empty:
        return None
    order = [levels(result, rows, column) for column in (down, across)]
    measured = [metric for metric in metrics if metric in set(rows["metric"])]

    def paint(body: SubFigure) -> None:
        grid: Any = body.subplots(1, len(measured), squeeze=False, sharey=True)
        for metric, axes in zip(measured, grid.flat, strict=True):
            part = rows[rows["metric"] == metric]
            means = part.pivot_table(index=down, columns=across, values="mean")
            sns.heatmap(
                means.reindex(index=order[0], columns=order[1]),
                ax=axes,
                cmap="rocket_r",
                vmin=0,
                annot=True,
                fmt=".2g",
                linewidths=0.6,
                linecolor="white",
                cbar=False,
                xticklabels=[word(result, across, value, text) for value in order[1]],
                yticklabels=[word(result, down, value, text) for value in order[0]],
            )
            axes.set(xlabel=(text or {}).get(across, across), ylabel="")
            axes.set_title(word(result, "metric", metric, text))
            axes.tick_params(length=0, rotation=0)
            axes.grid(visible=False)

    return Body(SQUARE * len(order[0]) + HEAD + FOOT, counted(rows), paint)
