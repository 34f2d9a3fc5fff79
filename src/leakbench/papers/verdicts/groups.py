"""Outcomes of two kinds: trials that fall into two groups, and the interval of their median."""

import math
from collections.abc import Sequence
from itertools import pairwise

# A gap separates two groups where it is this many times as wide as the wider group.
APART = 2.0


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
    """Return the median of independent trials and its 95 % interval (median, low, high).

    The ends are order statistics, so they assume no distribution. Fewer than six trials have no interval.
    """
    from scipy.stats import binom

    ordered, n = sorted(values), len(values)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    # The largest number of trials on either side that the median surely exceeds.
    beyond = int(binom.ppf(0.025, n, 0.5))
    return (median, ordered[beyond - 1], ordered[n - beyond]) if beyond else (median, math.nan, math.nan)
