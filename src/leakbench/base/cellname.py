"""The name of a cell: the five names that its path is made of and that tables have as columns."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

CELL = ("dataset", "victim", "federation", "defence", "attack")


def cell_name(row: Mapping[Any, Any]) -> str:
    """Return the cell of a table's line, in the form of the cell's path."""
    return "/".join(str(row[name]) for name in CELL)


def of_lines(table: "pd.DataFrame", columns: Sequence[str] = CELL) -> "pd.Series":
    """Return the cell of every line of a table that has the columns, in the form of the cell's path."""
    first, *others = columns
    return table[first].astype(str).str.cat(table[others].astype(str), sep="/").rename(None)
