"""What a cell is called: the five names that its path has, and that tables have as columns."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

CELL = ("dataset", "victim", "federation", "defence", "attack")


def named(row: Mapping[Any, Any]) -> str:
    """Return the cell of a table's line, as its path has it."""
    return "/".join(str(row[name]) for name in CELL)


def of_lines(table: "pd.DataFrame") -> "pd.Series":
    """Return the cell of every line of a table that has the five columns, as its path has it."""
    return table[list(CELL)].astype(str).agg("/".join, axis=1)
