"""Quantities with an interval, and the arithmetic of claims on them: differences, ratios, means, extremes.

A quantity that was read from one row of a result table carries that row's single trials, so that a difference
of two attacks on the same private images is a paired one.
"""

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from leakbench.base.errors import NotMeasured
from leakbench.metrics.interval import interval, of_networks, paired
from leakbench.papers.printed import as_text
from leakbench.papers.verdicts.sample import median_interval
from leakbench.papers.verdicts.schedule import PartialRun

NAN = float("nan")
# Both sides of an ordering ran equally long if their shares of the published length differ by at most this
# much.
EQUAL_BUDGET = 0.1


class LeftOut(NotMeasured):
    """A quantity that nothing measured because its cells are absent, for a reason that their run states."""


@dataclass(frozen=True)
class Trials:
    """The single trials behind a mean."""

    values: Mapping[str, float]  # trial key -> value
    clusters: Mapping[str, str]  # trial key -> its cluster (the update)

    def combined(self, other: "Trials", operation: Callable[[float, float], float]) -> "Trials | None":
        """Return the trials of a paired combination; None where the two sides are not the same trials."""
        if self.values.keys() != other.values.keys():
            return None
        return Trials({k: operation(v, other.values[k]) for k, v in self.values.items()}, self.clusters)

    def means(self) -> tuple[float, ...]:
        found: dict[str, list[float]] = {}
        for key, value in self.values.items():
            found.setdefault(self.clusters[key], []).append(value)
        return tuple(sum(each) / len(each) for each in found.values())

    def joined(self, other: "Trials") -> "Trials":
        """Return the trials of both, those that both have once."""
        return Trials({**other.values, **self.values}, {**other.clusters, **self.clusters})

    def scored(self) -> "Trials":
        return Trials({key: value for key, value in self.values.items() if value == value}, self.clusters)

    def over(self, ends: tuple[float, float]) -> tuple[float, float]:
        """Return the interval of the mean over all networks. A trial's key begins with its network's seed."""
        networks = np.array([key.partition("/")[0] for key in self.values])
        return of_networks(ends, np.array(list(self.values.values())), networks)

    def mapped(self, operation: Callable[[float], float]) -> "Trials":
        return Trials({key: operation(value) for key, value in self.values.items()}, self.clusters)


@dataclass(frozen=True)
class Measured:
    """A measured quantity."""

    value: float  # NaN where it is undefined, such as a ratio to zero
    low: float = NAN  # the ends of its 95 % interval, NaN where there are too few trials
    high: float = NAN
    # Of a combination, each of the next three is the smallest of its parts.
    n: int | None = None  # measurements as the table counts them, images or updates
    independent: float = math.inf  # independent trials, updates or seeds; infinite for what is exact
    length: float = 1.0  # share of the published length (iterations, rounds, training) that ran
    unequal: bool = False  # whether two compared sides ran for shares of it more than EQUAL_BUDGET apart
    beats_null: bool | None = None  # whether every mean behind it does; None where there are no nulls
    trials: Trials | None = None  # the single trials behind it, None where they are not known
    leaves: frozenset[Any] = frozenset()  # the table rows from which it was read
    notes: tuple[str, ...] = ()  # what a reader must know of it, such as a stand-in
    metric: str = ""  # its metric, empty where it has none
    raw: bool = False  # whether it is one row of a table, so that its metric's range is its own
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)  # `std` of one row of a table
    # As of a sample; of a combination, that of the part whose step size falls again.
    schedule: PartialRun | None = None
    open_end: bool = False  # whether a part has no stated length, and its run has not settled
    nulls: tuple[float, ...] = ()  # what the null baselines of one row give; empty for a combination
    networks: int = 0  # the networks that it was measured on, the fewest of its parts; 0 for what has none

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def __add__(self, other: "Measured | float") -> "Measured":
        return linear(self, as_measured(other), 1.0)

    __radd__ = __add__

    def __sub__(self, other: "Measured | float") -> "Measured":
        return linear(self, as_measured(other), -1.0)

    def __rsub__(self, other: float) -> "Measured":
        return linear(as_measured(other), self, -1.0)

    def __neg__(self) -> "Measured":
        return self * -1.0

    def __mul__(self, other: "Measured | float") -> "Measured":
        if isinstance(other, Measured):
            raise TypeError("a product of two measured quantities has no interval here")
        return replace(scaled(self, float(other)), raw=False, nulls=())

    __rmul__ = __mul__

    # Quantities are compared by their values alone. A comparison that needs an interval is a claim of its
    # own.
    def __lt__(self, other: "Measured | float") -> bool:
        return self.value < as_measured(other).value

    def __le__(self, other: "Measured | float") -> bool:
        return self.value <= as_measured(other).value

    def __gt__(self, other: "Measured | float") -> bool:
        return self.value > as_measured(other).value

    def __ge__(self, other: "Measured | float") -> bool:
        return self.value >= as_measured(other).value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else as_text(self.value)

    def __truediv__(self, other: "Measured | float") -> "Measured":
        return ratio(self, other) if isinstance(other, Measured) else self * (1.0 / other)


def exactly(value: float) -> Measured:
    """Return a quantity without uncertainty: a count of layers, a configured value, a threshold."""
    return Measured(float(value), float(value), float(value))


def as_measured(value: "Measured | float") -> Measured:
    """Return a quantity as it is, and a number as an exact quantity. Raises TypeError for anything else."""
    if isinstance(value, Measured):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{reprlib.repr(value)} is no quantity")
    return exactly(float(value))


def from_trials(trials: Trials, like: Measured) -> Measured:
    """Return the mean of trials with its interval, and everything else as in `like`."""
    values = np.array(list(trials.values.values()))
    labels = np.array([trials.clusters[key] for key in trials.values])
    low, high = trials.over(interval(values, labels, np.random.default_rng(0)))
    independent = len(set(labels.tolist()))
    return replace(
        like, value=float(values.mean()), low=low, high=high, independent=independent, trials=trials
    )


def _joined(parts: Sequence[Measured], value: float, low: float = NAN, high: float = NAN) -> Measured:
    """Return a combination with what it takes over from its parts."""
    nulls = [part.beats_null for part in parts if part.beats_null is not None]
    unfinished = (part.schedule for part in parts if part.schedule and part.schedule.ahead)
    return Measured(
        value, low, high, n=min((part.n for part in parts if part.n is not None), default=None),
        independent=min(part.independent for part in parts), length=min(part.length for part in parts),
        schedule=next(unfinished, None), unequal=any(part.unequal for part in parts),
        open_end=any(part.open_end for part in parts), beats_null=all(nulls) if nulls else None,
        networks=min((part.networks for part in parts if part.networks), default=0),
        leaves=frozenset().union(*(part.leaves for part in parts)),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        metric=parts[0].metric if len({part.metric for part in parts if part.metric}) == 1 else "",
    )  # fmt: skip


def _compared(a: Measured, b: Measured, value: float, low: float = NAN, high: float = NAN) -> Measured:
    """Return what `_joined` does of two sides, and whether their budgets are equal."""
    measured = not (math.isinf(a.independent) or math.isinf(b.independent))
    apart = measured and abs(a.length - b.length) > EQUAL_BUDGET
    found = _joined([a, b], value, low, high)
    return replace(found, unequal=found.unequal or apart)


def scaled(a: Measured, times: float) -> Measured:
    """Return `times` times a quantity, such as a share in percent."""
    low, high = sorted((times * a.low, times * a.high)) if not math.isnan(a.low) else (NAN, NAN)
    trials = a.trials.mapped(lambda value: times * value) if a.trials else None
    nulls = tuple(times * null for null in a.nulls)
    return replace(a, value=times * a.value, low=low, high=high, trials=trials, nulls=nulls)


def linear(a: Measured, b: Measured, sign: float) -> Measured:
    """Return a + sign b, paired where both have the same trials.

    Otherwise the two are independent estimates, with the square-and-add interval (Newcombe 1998).
    """
    if a.trials and b.trials and (both := a.trials.combined(b.trials, lambda x, y: x + sign * y)):
        if sign > 0:
            return from_trials(both, _compared(a, b, NAN))
        value, *ends, independent = paired(a.trials.values, b.trials.values, a.trials.clusters)
        found = _compared(a, b, value, *both.over((ends[0], ends[1])))
        return replace(found, trials=both, independent=independent)
    value = a.value + sign * b.value
    other_low, other_high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    low = value - math.hypot(a.value - a.low, sign * b.value - other_low)
    high = value + math.hypot(a.high - a.value, other_high - sign * b.value)
    trials = None
    if math.isinf(b.independent) and a.trials:
        trials = a.trials.mapped(lambda x: x + sign * b.value)
    elif math.isinf(a.independent) and b.trials:
        trials = b.trials.mapped(lambda y: a.value + sign * y)
    return replace(_compared(a, b, value, low, high), trials=trials)


def ratio(a: Measured, b: Measured) -> Measured:
    """Return a / b of two quantities that are not negative.

    The interval spans the corners of both, so it exceeds 95 %. The value is NaN where b is zero. The upper
    end is infinite where b's interval reaches zero.
    """
    if b.value <= 0:
        return _compared(a, b, NAN)
    low = max(a.low, 0.0) / b.high if b.high else NAN
    high = a.high / b.low if b.low > 0 else math.inf
    return _compared(a, b, a.value / b.value, low, NAN if math.isnan(b.low) else high)


def distinct(parts: Iterable[Measured]) -> list[Measured]:
    """Return the parts that rest on other rows than every earlier part, so that a stand-in counts once."""
    kept: list[Measured] = []
    for part in map(as_measured, parts):
        same = next((i for i, other in enumerate(kept) if part.leaves and part.leaves == other.leaves), None)
        if same is None:
            kept.append(part)
        else:
            kept[same] = replace(kept[same], notes=tuple(dict.fromkeys((*kept[same].notes, *part.notes))))
    if not kept:
        raise NotMeasured("there is nothing to combine")
    return kept


def mean(parts: Iterable[Measured]) -> Measured:
    """Return the unweighted mean over conditions, such as a curve over the sizes of the local set."""
    some = distinct(parts)
    total = some[0]
    for part in some[1:]:
        total = total + part
    made = scaled(total, 1 / len(some))
    return replace(
        _joined(some, made.value, made.low, made.high),
        trials=made.trials, raw=made.raw, nulls=made.nulls, extra=made.extra, metric=some[0].metric,
    )  # fmt: skip


def least(parts: Iterable[Measured]) -> Measured:
    """Return the smallest of several quantities: what must exceed a threshold for all to exceed it."""
    return _extreme(parts, min)


def greatest(parts: Iterable[Measured]) -> Measured:
    """Return the largest of several quantities: what must stay below a threshold for all to do so."""
    return _extreme(parts, max)


def _extreme(parts: Iterable[Measured], of: Callable[[list[float]], float]) -> Measured:
    some = distinct(parts)
    if len(some) == 1:
        return some[0]
    ends = {key: [getattr(part, key) for part in some] for key in ("value", "low", "high")}
    # Python's min and max keep or drop a NaN depending on the order. A part without an interval leaves the
    # extreme without one.
    found = {key: NAN if any(map(math.isnan, values)) else of(values) for key, values in ends.items()}
    return _joined(some, **found)


def magnitude(a: Measured) -> Measured:
    ends = sorted((abs(a.low), abs(a.high)))
    low = 0.0 if a.low <= 0 <= a.high else ends[0]
    return replace(a, value=abs(a.value), low=low, high=ends[1], trials=None, raw=False, nulls=())


def within(a: Measured, target: float, room: float) -> Measured:
    """Return the room that is left between a quantity and the edge of target ± room: negative outside."""
    away = magnitude(a - target)
    return replace(room - away, trials=None)


def share_above(parts: Iterable[Measured], threshold: float) -> Measured:
    """Return the share (0 to 1) of conditions whose value exceeds a threshold.

    The interval runs from the share of conditions whose whole interval exceeds the threshold to the share of
    those whose interval reaches above it.
    """
    return scaled(count_above(some := distinct(parts), threshold), 1 / len(some))


def count_above(parts: Iterable[Measured], threshold: float) -> Measured:
    """Return the number of conditions whose value exceeds `threshold`, with `share_above`'s interval."""
    some = distinct(parts)
    value, low, high = (
        float(sum(getattr(p, key) > threshold for p in some)) for key in ("value", "low", "high")
    )
    unknown = any(math.isnan(part.low) for part in some)
    return _joined(some, value, NAN if unknown else low, NAN if unknown else high)


def greatest_at(curve: Mapping[float, Measured]) -> Measured:
    """Return the place at which a curve is greatest; the interval spans all places at which it may be."""
    top = max(curve, key=lambda x: curve[x].value)
    unknown = any(math.isnan(point.low) for point in curve.values())
    rivals = [x for x, point in curve.items() if point.high >= curve[top].low]
    low, high = (NAN, NAN) if unknown else (float(min(rivals)), float(max(rivals)))
    return _joined(list(curve.values()), float(top), low, high)


def rank_correlation(xs: Sequence[float], points: Sequence[Measured]) -> Measured:
    """Return Spearman's rank correlation of places and the values of a curve, without an interval."""
    from scipy.stats import spearmanr

    found = float(spearmanr(list(xs), [point.value for point in points]).statistic)
    return _joined(points, found)


def won(a: Measured) -> Measured:
    """Return the share of the trials behind a difference in which the difference is above 0."""
    if a.trials is None:
        raise NotMeasured("single samples are not kept")
    found = from_trials(a.trials.mapped(lambda value: float(value > 0)), a)
    return replace(found, metric="share", raw=False, beats_null=None, nulls=())


def median(a: Measured) -> Measured:
    """Return the median of the independent trials behind a quantity, for outcomes of two kinds.

    Its interval assumes no distribution; fewer than six trials have none.
    """
    if a.trials is None:
        raise NotMeasured("single samples are not kept")
    value, low, high = median_interval(a.trials.means())
    return replace(a, value=value, low=low, high=high, trials=None, raw=False, beats_null=None, nulls=())


def first_near_end(curve: Mapping[float, Measured], room: float) -> Measured:
    """Return the first place whose value is within `room` of the last value, without an interval."""
    *_, end = curve.values()
    found = next(x for x, point in curve.items() if abs(point.value - end.value) <= room)
    return replace(_joined(list(curve.values()), float(found)), metric="")


def deviation(like: Measured, unit: float = 1.0) -> Measured:
    """Return the standard deviation behind a mean, with its interval.

    The deviation is that of a population, divided by n. n s² / σ² has a chi-squared distribution with n - 1
    degrees of freedom. A deviation of 0 of a share, of which every count was right (or wrong), has the
    interval that the counts have: N counts without a wrong one are consistent with a share p of wrong ones of
    1 - 0.025^(1/N), and independent counts, m in each trial, then deviate by √(p (1 - p) / m).
    """
    from scipy.stats import chi2

    std, n = like.extra["std"] * unit, int(like.independent)
    if n < 2 or math.isnan(std):
        raise NotMeasured("one update has no deviation")
    low, high = (std * math.sqrt(n / chi2.ppf(tail, n - 1)) for tail in (0.975, 0.025))
    if std == 0 and like.value in (0.0, 1.0):
        counts = max(like.n or n, n)
        wrong = 1 - 0.025 ** (1 / counts)
        high = unit * math.sqrt(wrong * (1 - wrong) * n / counts)
    found = replace(like, value=std, low=low, high=high, n=n, independent=n)
    return replace(found, trials=None, metric="deviation", beats_null=None, nulls=())
