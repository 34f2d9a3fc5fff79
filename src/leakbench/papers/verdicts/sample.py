"""What a source says, what was measured for it, and the intervals of a difference and of a median."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from leakbench.metrics.interval import BOOTSTRAP_FROM
from leakbench.papers.printed import Relation
from leakbench.papers.verdicts.schedule import PartialRun

SURE = 0.99  # level at which an interval must stay nearer than FAR; 0.95 fails for skewed samples
UNSEEN = 0.05  # chance with which outcomes of the share `unseen(n)` stay out of a sample of n
# Where a quantity has no bound, an unseen outcome lies this many deviations beyond the interval.
BEYOND = 4.0
# The number of trials of a quantity that is no sample: counted in an architecture, or computed from a
# configuration.
EXACT = 10**9
# A gap separates two groups where it is this many times as wide as the wider group.
APART = 2.0


@dataclass(frozen=True)
class Statement:
    """What a source says of one number: a number that it prints (relation "="), or a claim."""

    relation: Relation  # "=" for a printed number, the inequality of a claim
    against: float  # the printed number, or the threshold of a claim
    rounding: float = 0.0  # half a unit of the last printed place; 0 for a claim
    std: float | None = None  # the printed standard deviation, None where it is not printed
    n: int | None = None  # the printed number of trials, None where it is not printed
    tolerance: float = 0.0  # the distance within which a number counts as reproduced, in the printed unit
    bounds: tuple[float, float] = (-math.inf, math.inf)  # the range of the quantity
    # Whether a larger number always says the same about quality. False for 8-bit wrap-around PSNR, in which
    # two numbers may differ, but agree only by chance where a null baseline has the number too.
    monotone: bool = True
    success: bool = False  # it says that an attack succeeds, which must then beat the null baselines
    hidden: bool = False  # it says that an attack fails, and a success after any length refutes it
    leak: Literal[-1, 0, 1] = 0  # the sign of the numbers that say that more was read, 0 for none
    threshold: float | None = None  # the stated number from which an attack counts as successful
    sign: Literal[-1, 0, 1] = 0  # of this row minus the row that it is ordered against, 0 without one
    rivals: tuple[float, ...] = ()  # the numbers printed for the other methods in the same condition
    trivial: bool = False  # it holds by construction


@dataclass(frozen=True)
class Ordering:
    """The paired difference of a row to the row that the print orders it against."""

    value: float
    low: float  # the ends of its 95 % interval, NaN without one
    high: float
    n: int  # independent pairs
    equal_budget: bool  # whether both sides ran with equal budgets
    length: float = 1.0  # the shorter of both shares of the published length
    schedule: PartialRun | None = None  # as of a sample, of the side whose step size falls again


@dataclass(frozen=True)
class Sample:
    """What was measured for a statement, in the printed unit."""

    value: float
    low: float  # the ends of its 95 % interval, NaN without one
    high: float
    n: int  # independent trials; `EXACT` for a quantity that is no sample, whose low and high are its value
    length: float = 1.0  # share of the published length that ran; 1 where the run has settled
    beats_null: bool | None = None  # None where there is no null baseline
    ordering: Ordering | None = None  # the difference to the row that the print orders this one against
    schedule: PartialRun | None = None  # None where the step size never falls, or the run has settled
    # The source states no length, and the run has not settled: `length` is of the authors' code.
    open_end: bool = False
    nulls: tuple[float, ...] = ()  # what the null baselines give
    values: tuple[float, ...] = ()  # the independent trials; empty where they are not kept
    # 0 where it has no meaning. The interval of several networks counts networks, that of one is of this one.
    networks: int = 0

    @property
    def units(self) -> int:
        """The number of units that the interval counts: networks where there are several, else trials."""
        return self.networks if self.networks > 1 else self.n

    @property
    def ends(self) -> tuple[float, float]:
        # A bootstrap interval may miss the mean of a very skewed sample.
        return min(self.low, self.value), max(self.high, self.value)

    @property
    def surely(self) -> tuple[float, float]:
        """The interval at the level SURE: its arms are longer as those of Student's t are."""
        low, high = self.ends
        longer = _student((1 + SURE) / 2, self.units) / _student(0.975, self.units)
        if not math.isfinite(self.value):
            return low, high
        return self.value - longer * (self.value - low), self.value + longer * (high - self.value)

    @property
    def by_student(self) -> bool:
        """Whether the interval is Student's t: it is symmetric, Wilson's and the bootstrap's are not."""
        low, high = self.ends
        return self.units < BOOTSTRAP_FROM and math.isclose(self.value - low, high - self.value, rel_tol=0.01)

    def doubted(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the sure interval, widened by unseen outcomes at the bounds."""
        low, high = self.surely
        share, centre = unseen(self.n), min(max(self.value, bounds[0]), bounds[1])
        least, most = (
            (1 - share) * centre + share * bound if math.isfinite(bound) else end
            for bound, end in zip(bounds, (low, high), strict=True)
        )
        return min(low, least), max(high, most)

    def widened(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the interval, widened by unseen outcomes, whether bounded or not."""
        low, high = self.ends
        deviation = math.sqrt(self.units) * (high - low) / 2 / _student(0.975, self.units)
        further = BEYOND * unseen(self.n) * deviation
        least, most = self.doubted(bounds)
        return (
            least if math.isfinite(bounds[0]) else low - further,
            most if math.isfinite(bounds[1]) else high + further,
        )


def _student(level: float, n: int) -> float:
    """Return the quantile of Student's t for the mean of n units."""
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, level))


def unseen(n: int) -> float:
    """Return the share w of a kind of outcome that n trials miss with a chance of 5 %: 1 - 0.05^(1/n)."""
    return 1 - UNSEEN ** (1 / n)


def difference(statement: Statement, sample: Sample, ends: tuple[float, float]) -> tuple[float, float, float]:
    """Return measured - published, with the interval of the sample's `ends` and the print's own error."""
    error = statement.rounding
    if statement.std is not None and statement.n is not None and statement.n > 1:
        half = _student(0.975, statement.n) * statement.std / math.sqrt(statement.n - 1)
        error = math.hypot(error, half)
    value, low, high = (number - statement.against for number in (sample.value, *ends))
    # An infinite value (the PSNR of an identical image) has no distance to a finite bound.
    if math.isfinite(value - low):
        low = value - math.hypot(value - low, error)
    if math.isfinite(high - value):
        high = value + math.hypot(high - value, error)
    return value, low, high


def two_groups(values: Sequence[float], least: float) -> tuple[list[float], list[float]] | None:
    """Return the lower and the upper group of trials, None where they are of one kind."""
    ordered = sorted(values)
    if len(ordered) < 2 or not all(map(math.isfinite, ordered)):
        return None
    gaps = [after - before for before, after in pairwise(ordered)]
    place = max(range(len(gaps)), key=gaps.__getitem__) + 1
    lower, upper = ordered[:place], ordered[place:]
    wider = max(lower[-1] - lower[0], upper[-1] - upper[0])
    return (lower, upper) if gaps[place - 1] > max(least, APART * wider) else None


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of independent trials and its 95 % interval (median, low, high)."""
    # The ends are order statistics, so they assume no distribution. Fewer than six trials have no interval.
    from scipy.stats import binom

    ordered, n = sorted(values), len(values)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    # The largest number of trials on either side that the median surely exceeds.
    beyond = int(binom.ppf(0.025, n, 0.5))
    return (median, ordered[beyond - 1], ordered[n - beyond]) if beyond else (median, math.nan, math.nan)
