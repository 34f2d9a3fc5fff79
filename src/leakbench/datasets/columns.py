"""Records of a table as vectors of numbers in [0, 1], and back.

A number is scaled by the range of its column. A category is a block of zeros with a one in its own place.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from leakbench.base.errors import UserError


class Column(NamedTuple):
    """A column of a table."""

    name: str
    place: slice
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0


def columns_of(listed: Sequence[Mapping[str, Sequence[float | str]]]) -> list[Column]:
    """Return the columns that a list names, in its order: name → low, high and step, or name → categories."""
    found: list[Column] = []
    for entry in listed:
        start = found[-1].place.stop if found else 0
        (name, said), *more = entry.items() or [("", ())]
        if not more and len(said) == len(set(said)) > 1 and all(isinstance(value, str) for value in said):
            found.append(Column(name, slice(start, start + len(said)), tuple(map(str, said))))
            continue
        numbers = [float(value) for value in said if not isinstance(value, str)]
        if more or len(said) != 3 or len(numbers) != 3 or not (numbers[0] < numbers[1] and numbers[2] > 0):
            raise UserError(
                f"columns: {dict(entry)!r} is no column (give one name and [low, high, step], or its "
                "categories)"
            )
        found.append(Column(name, slice(start, start + 1), (), *numbers))
    return found


def encode(table: pd.DataFrame, columns: Sequence[Column]) -> np.ndarray:
    """Return the rows of a table as vectors, float32 [N, width]."""
    out = np.empty((len(table), columns[-1].place.stop), np.float32)
    for column in columns:
        if column.values:
            codes = pd.Index(column.values).get_indexer(pd.Index(table[column.name]))[:, None]
            out[:, column.place] = np.where(codes < 0, np.nan, codes == np.arange(len(column.values)))
        else:
            value = pd.to_numeric(table[column.name], errors="coerce").to_numpy(np.float64)
            inside = (column.low <= value) & (value <= column.high)
            share = (value - column.low) / (column.high - column.low)
            out[:, column.place] = np.where(inside, share, np.nan)[:, None]
    return out


def decode(records: np.ndarray, columns: Sequence[Column]) -> pd.DataFrame:
    """Return vectors [N, width] as rows of a table."""
    out: dict[str, np.ndarray] = {}
    for column in columns:
        part = np.asarray(records[:, column.place], np.float64)
        if column.values:
            out[column.name] = np.array(column.values)[part.argmax(1)]
        else:
            value = column.low + part[:, 0] * (column.high - column.low)
            decimals = max(0, math.ceil(-math.log10(column.step)))
            out[column.name] = np.round(np.rint(value / column.step) * column.step, decimals)
    return pd.DataFrame(out)
