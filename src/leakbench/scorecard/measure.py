"""Picks measured quantities out of result tables and combines them.

A result table is the tidy long frame of the `table` verb: one row per condition and metric, with `mean`,
`ci_low`, `ci_high` and `n`. Everything here returns a `Measured`, so that a claim about a difference or a
ratio carries an interval just as a plain mean does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from leakbench.errors import UserError

# Rows of null baselines, and rows in a published convention, are only picked when they are asked for by name.
DEFAULTS = {"baseline": "", "convention": "standard"}


class NotMeasured(Exception):
    """A quantity that no table holds; its message is the reason that the scorecard prints."""


@dataclass(frozen=True)
class Measured:
    """A measured quantity with its 95 % interval and the number of measurements behind it.

    `value` may be NaN (undefined, such as a ratio to zero); otherwise low <= value <= high. `n` counts what
    the table
    counts: images or updates; combined quantities carry the smallest n of their parts.
    """

    value: float
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        if not math.isnan(self.value) and not self.low <= self.value <= self.high:
            raise ValueError(f"interval {self.low} to {self.high} does not contain {self.value}")


def exactly(value: float, n: int = 1) -> Measured:
    """A quantity without uncertainty: a count of layers, a configured value."""
    return Measured(float(value), float(value), float(value), n)


def _is(value: object, wanted: object) -> bool:
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        try:
            return float(value) == wanted  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False
    return ("" if pd.isna(value) else str(value)) == str(wanted)  # type: ignore[call-overload]


def select(table: pd.DataFrame, name: str = "table", **where: object) -> pd.DataFrame:
    """Rows of a result table whose columns equal the given values (numbers are compared as numbers, empty
    cells as "").

    Null baselines and published conventions are left out unless `where` names them. Raises UserError for a
    column that the table does not have.
    """
    # Plain lists, since a scorecard selects a thousand times and each column operation of a frame costs half a millisecond.
    rows = list(range(len(table)))
    for key, wanted in {**DEFAULTS, **where}.items():
        if key not in table.columns:
            if key in where:
                raise UserError(f"{name}: no column {key!r} (columns: {', '.join(map(str, table.columns))})")
            continue
        values = table[key].tolist()
        rows = [row for row in rows if _is(values[row], wanted)]
    return table.iloc[rows]


def pick(table: pd.DataFrame, name: str = "table", **where: object) -> Measured:
    """The one measured mean that a condition names, e.g. `pick(t, metric="revealed", local_samples=30)`.

    Raises NotMeasured when no row matches (the scale left that condition out) or when the row's mean is
    missing, and UserError when several match, naming the columns that tell them apart.
    """
    rows = select(table, name, **where)
    asked = ", ".join(f"{key}={value}" for key, value in where.items())
    if rows.empty:
        raise NotMeasured(f"{name} has no row for {asked}")
    if len(rows) > 1:
        statistics = {"mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate"}
        differ = [c for c in rows.columns if c not in statistics and len(set(rows[c].astype(str))) > 1]
        apart = ", ".join(differ) or "nothing: the rows are duplicates"
        raise UserError(f"{name}: {len(rows)} rows match {asked} (they differ in {apart})")
    row = rows.iloc[0]
    mean, low, high = (float(row[key]) for key in ("mean", "ci_low", "ci_high"))
    if math.isnan(mean):
        raise NotMeasured(f"{name} has no value for {asked}")
    # One measurement has no interval, and a bootstrap interval may miss the mean of a very skewed sample.
    low = mean if math.isnan(low) else min(low, mean)
    high = mean if math.isnan(high) else max(high, mean)
    return Measured(mean, low, high, int(row["n"]))


def scaled(a: Measured, times: float) -> Measured:
    """A quantity in another unit: `times` times itself, such as a share in percent."""
    return Measured(times * a.value, times * a.low, times * a.high, a.n)


def difference(a: Measured, b: Measured, times: float = 1.0) -> Measured:
    """a - times * b, with the square-and-add interval for two independent estimates (Newcombe 1998).

    With `times=2` a positive result says that a is more than twice b, which stays defined when b is zero.
    """
    value = a.value - times * b.value
    low = value - math.hypot(a.value - a.low, times * (b.high - b.value))
    high = value + math.hypot(a.high - a.value, times * (b.value - b.low))
    return Measured(value, low, high, min(a.n, b.n))


def ratio(a: Measured, b: Measured) -> Measured:
    """a / b of two non-negative quantities; its interval spans the corners of both, so it exceeds 95 %.

    The value is NaN when b is zero; the upper end is infinite when b's interval reaches zero.
    """
    n = min(a.n, b.n)
    if b.value <= 0:
        return Measured(math.nan, math.nan, math.nan, n)
    return Measured(a.value / b.value, max(a.low, 0) / b.high, a.high / b.low if b.low > 0 else math.inf, n)


def within(a: Measured, target: float, room: float) -> Measured:
    """How much of `room` is left between a quantity and the edge of target ± room: negative outside."""
    ends = abs(a.low - target), abs(a.high - target)
    nearest = 0.0 if a.low <= target <= a.high else min(ends)
    return Measured(room - abs(a.value - target), room - max(ends), room - nearest, a.n)


def share(hits: int, n: int) -> Measured:
    """The share of n that hit, with Wilson's interval. Raises NotMeasured for none."""
    from scipy.stats import binomtest

    if n == 0:
        raise NotMeasured("a share of nothing")
    found = binomtest(hits, n).proportion_ci(method="wilson")
    return Measured(hits / n, min(found.low, hits / n), max(found.high, hits / n), n)


def deviation(std: float, n: int) -> Measured:
    """A standard deviation (of a population, divided by n) of n repeats, with its interval under normal theory.

    n s² / σ² has a chi-squared distribution with n - 1 degrees of freedom. Raises NotMeasured for fewer than two.
    """
    from scipy.stats import chi2

    if n < 2 or math.isnan(std):
        raise NotMeasured("needs paper scale: one update has no deviation")
    low, high = (std * math.sqrt(n / chi2.ppf(tail, n - 1)) for tail in (0.975, 0.025))
    return Measured(std, low, high, n)


def average(parts: Sequence[Measured]) -> Measured:
    """Unweighted mean over independent conditions, e.g. of a curve over the sizes of the local set."""
    value = sum(part.value for part in parts) / len(parts)
    low = value - math.hypot(*(part.value - part.low for part in parts)) / len(parts)
    high = value + math.hypot(*(part.high - part.value for part in parts)) / len(parts)
    return Measured(value, low, high, min(part.n for part in parts))


def least(parts: Sequence[Measured]) -> Measured:
    """The smallest of several quantities: what must exceed a threshold for all of them to exceed it."""
    return _extreme(parts, min)


def greatest(parts: Sequence[Measured]) -> Measured:
    """The largest of several quantities: what must stay below a threshold for all of them to do so."""
    return _extreme(parts, max)


def _extreme(parts: Sequence[Measured], of: Callable[[list[float]], float]) -> Measured:
    n = min(part.n for part in parts)
    # Python's min and max pass over a NaN or keep it depending on the order, so it is passed on by hand.
    if any(math.isnan(part.value) for part in parts):
        return Measured(math.nan, math.nan, math.nan, n)
    value, low, high = (of([getattr(part, key) for part in parts]) for key in ("value", "low", "high"))
    return Measured(value, low, high, n)


def share_of_conditions(parts: Sequence[Measured], above: float) -> Measured:
    """Share (0 to 1) of conditions whose value exceeds `above`; n is the number of conditions.

    The interval runs from the share whose whole interval exceeds it to the share whose interval reaches
    above it.
    """
    total = len(parts)
    value, low, high = (
        sum(getattr(part, key) > above for part in parts) / total for key in ("value", "low", "high")
    )
    return Measured(value, low, high, total)


def where_greatest(curve: dict[float, Measured]) -> Measured:
    """The abscissa at which a curve is greatest; the interval spans those it cannot be told apart from."""
    top = max(curve, key=lambda x: curve[x].value)
    rivals = [x for x, point in curve.items() if point.high >= curve[top].low]
    return Measured(top, min(rivals), max(rivals), min(point.n for point in curve.values()))
