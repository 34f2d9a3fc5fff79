"""A map of squares for each metric, with one condition down, another across, and a number in each square."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from leakbench.results.figures.facet import faceted, shaded
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import OUTCOMES, SAID, chosen, counted, levels, word
from leakbench.results.figures.sheet import INK, Body

SQUARE, HEAD, FOOT = 0.4, 0.5, 0.5
# A square is dark from this share of the greatest value.
DARK = 0.5
SIGNS = {OUTCOMES["success"]: "✓", OUTCOMES["failure"]: "✗"}


def squares(
    result: Result,
    *,
    metrics: tuple[str, ...],
    down: str,
    across: str,
    where: dict[str, str | float | list[str | float]] | None = None,
    columns: dict[str, dict[str, str | float | list[str | float]]] | None = None,
    text: dict[str, str] | None = None,
    beside: tuple[str, ...] = (),
) -> Body | None:
    """Draw a map for each metric, with the mean of what was measured in each square and the print below it.

    metrics: the metrics that are drawn; their maps stand side by side.
    down: the column whose values are the rows of a map.
    across: the column whose values are the columns of a map.
    where: column → the value, or list of values, of the rows that are drawn.
    columns: new column → how it follows from other columns (`derived` in `drawing/rows.py`).
    text: value → the words that are shown in its place. The name of the column `across` → the words below
    the axis.
    beside: other experiments, whose recorded tables are drawn in the same map.
    """
    found = [result, *(result.others[name] for name in beside if name in result.others)]
    parts = [chosen(each, metrics, where=where, columns=columns, unmeasured=True) for each in found]
    rows = pd.concat([part for part in parts if len(part)] or parts).dropna(subset=[down, across])
    own = rows[rows["baseline"] == ""]
    if own.empty:
        return None
    order = {column: levels(result, rows, column, columns) for column in (down, across)}
    left, below = ([word(result, column, value, text) for value in order[column]] for column in order)
    measured = [(metric,) for metric in metrics if metric in set(own["metric"])]

    def mark(axes: Axes, metric: str) -> None:
        part = own[own["metric"] == metric]
        means = part.pivot_table(index=down, columns=across, values="mean")
        means = means.reindex(index=order[down], columns=order[across])
        title = word(result, "metric", metric, text)
        printed = rows[rows["baseline"].isin(SAID) & (rows["metric"] == metric)]
        look: Any = {"annot": True, "fmt": ".2g", "cbar": False}
        if len(printed):
            look["annot_kws"] = {"va": "bottom"}
        shaded(axes, means, title, left, below, **look)
        for row in printed.to_dict("records"):
            x, y = order[across].index(row[across]), order[down].index(row[down])
            colour = "w" if means.iat[y, x] > DARK * np.nanmax(means.to_numpy()) else INK
            said = SIGNS.get(row["baseline"], f"{row['mean']:.3g}")
            small: Any = {"ha": "center", "va": "top", "fontsize": 6.5, "color": colour}
            axes.text(x + 0.5, y + 0.53, f"printed {said}", **small)
        axes.set(xlabel=(text or {}).get(across, across))
        axes.tick_params(rotation=0)

    note = counted(rows)
    if rows["baseline"].isin(list(SIGNS)).any():
        note += "; ✓, ✗: the source prints success or failure"
    if len(found) > 1:
        note += f"; with the records of {', '.join(each for each in beside if each in result.others)}"
    heights = [SQUARE * len(left) + HEAD]
    return faceted(mark, measured, note, across=len(measured), heights=heights, below=FOOT, sharey=True)
