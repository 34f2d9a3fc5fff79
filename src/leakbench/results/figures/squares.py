"""A map of squares for each metric, with one condition down, another across, and a number in each square."""

from matplotlib.axes import Axes

from leakbench.results.figures.facet import faceted, shaded
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
    order = {column: levels(result, rows, column) for column in (down, across)}
    left, below = ([word(result, column, value, text) for value in order[column]] for column in order)
    measured = [(metric,) for metric in metrics if metric in set(rows["metric"])]

    def mark(axes: Axes, metric: str) -> None:
        part = rows[rows["metric"] == metric]
        means = part.pivot_table(index=down, columns=across, values="mean")
        means = means.reindex(index=order[down], columns=order[across])
        title = word(result, "metric", metric, text)
        shaded(axes, means, title, left, below, annot=True, fmt=".2g", cbar=False)
        axes.set(xlabel=(text or {}).get(across, across))
        axes.tick_params(rotation=0)

    heights = [SQUARE * len(left) + HEAD]
    return faceted(
        mark, measured, counted(rows), across=len(measured), heights=heights, below=FOOT, sharey=True
    )
