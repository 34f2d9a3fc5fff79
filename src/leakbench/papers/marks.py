"""The published marks of a figure: what the papers print of an experiment, in our words and unit."""

import math
from collections.abc import Sequence

import pandas as pd

from leakbench.papers.join import read
from leakbench.papers.work import Work


def marks(works: Sequence[Work], experiment: str) -> pd.DataFrame:
    """Return one line for each printed number that one row of an experiment's table measures."""
    lines = []
    for work in works:
        for row in (row for rows in work.tables.values() for row in rows):
            reading = read(work, row)
            own = reading.where.get("experiment") == experiment and reading.way == "mean"
            if own and not math.isnan(row.number.value):
                where = {key: value for key, value in reading.where.items() if key != "experiment"}
                lines.append(
                    {"id": row.id, "value": row.number.value / reading.unit, "convention": "standard"} | where
                )
    return pd.DataFrame(lines, columns=None if lines else ["id", "value", "convention", "metric"])
