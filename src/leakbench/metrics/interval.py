"""What a table reports about many scores: mean with a 95 % interval, median, quartiles, failures.

One rule chooses the interval of a mean. The rule counts independent trials: values that share one fate, such
as the images of one update, are one trial (a cluster). With m clusters:

- m < 3: no interval, both bounds are NaN.
- All values are 0 or 1 (a share): Wilson's interval for m trials.
- 3 <= m < 20: Student's t with m - 1 degrees of freedom.
- m >= 20: the bootstrap BCa over clusters, which follows the skewness of the sample.

Values of several networks have an interval of all networks (`of_networks`): Student's t over the means of
networks, and at least the interval above.
"""

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

LEVEL = 0.95
RESAMPLES = 2000
FEWEST = 3  # clusters that have an interval
FEWEST_EQUAL = 5  # clusters of one and the same value that have an interval
BOOTSTRAP_FROM = 20
_VALUES_AT_ONCE = 2_000_000
NO_INTERVAL = (math.nan, math.nan)
Key = TypeVar("Key", bound=Hashable)


def interval(
    values: np.ndarray, clusters: np.ndarray | None = None, rng: np.random.Generator | None = None
) -> tuple[float, float]:
    """Return the interval (low, high) of the mean of values, float [n], of which none is NaN.

    `clusters` [n] label the values that share one fate; `rng` draws the bootstrap. A share has Wilson's
    interval for as many trials as clusters, or fewer where these are unequal (Kish). Other means use each
    cluster's residual, sum - mean * size. Values that are all equal have an interval from 5 clusters on. With
    infinite values the bound on their side is infinite, and the other one is that of the values capped at the
    finite ones.
    """
    values = np.ravel(np.asarray(values, dtype=np.float64))
    sums, sizes = _clustered(values, clusters)
    if sums.size < FEWEST or np.isnan(values).any():
        return NO_INTERVAL
    if ((values == 0) | (values == 1)).all():
        return wilson(float(values.mean()), float(sizes.sum() ** 2 / np.square(sizes).sum()))
    if not np.isfinite(values).all():
        return _capped(values, clusters, rng)
    return _of_mean(values, sums, sizes, rng)


def of_networks(ends: tuple[float, float], values: np.ndarray, networks: np.ndarray) -> tuple[float, float]:
    """Return the interval of a mean over all networks: t over the means of networks, and at least `ends`."""
    values = np.asarray(values, dtype=np.float64)
    sums, sizes = _clustered(values, networks)
    if sums.size < 2 or not np.isfinite(sums).all():
        return ends
    low, high = _student(sums, sizes)
    if ((values == 0) | (values == 1)).all():
        low, high = max(low, 0.0), min(high, 1.0)
    # A few networks that happen to agree do not make trials certain.
    return (low, high) if math.isnan(ends[0]) else (min(low, ends[0]), max(high, ends[1]))


def paired(
    a: Mapping[Key, float], b: Mapping[Key, float], clusters: Mapping[Key, Hashable]
) -> tuple[float, float, float, int]:
    """Return (value, low, high, m) of a paired difference: mean of a - b, its interval, number of clusters.

    They are NaN and 0 unless both sides have the same trials. Where all scores are 0 or 1, the difference of
    two shares has Bonett and Price's interval (2012), the counterpart of Wilson's for pairs.
    """
    if set(a) != set(b):
        return math.nan, math.nan, math.nan, 0
    kept = [key for key in a if not (math.isnan(a[key]) or math.isnan(b[key]))]
    if not kept:
        return math.nan, math.nan, math.nan, 0
    first, second = (np.array([scores[key] for key in kept], dtype=np.float64) for scores in (a, b))
    names = {name: place for place, name in enumerate(dict.fromkeys(clusters[key] for key in kept))}
    labels = np.array([names[clusters[key]] for key in kept])
    with np.errstate(invalid="ignore"):
        # Two infinite scores are the same score.
        differences = np.where(first == second, 0.0, first - second)
    sums, sizes = _clustered(differences, labels)
    value, m = float(differences.mean()), int(sums.size)
    if m < FEWEST:
        low, high = NO_INTERVAL
    elif all(((side == 0) | (side == 1)).all() for side in (first, second)):
        # Student's t and the bootstrap see a difference where three pairs of twenty happen to disagree alike.
        trials = float(sizes.sum() ** 2 / np.square(sizes).sum())
        low, high = _bonett_price(float((differences > 0).mean()), float((differences < 0).mean()), trials)
    elif np.isfinite(differences).all():
        low, high = _of_mean(differences, sums, sizes, None)
    else:
        low, high = _capped(differences, labels, None)
    return value, low, high, m


def wilson(share: float, trials: float) -> tuple[float, float]:
    """Return Wilson's interval (low, high) of a share over a number of trials (Wilson 1927)."""
    from scipy.special import ndtri

    z = float(ndtri((1 + LEVEL) / 2))
    centre = share + z * z / (2 * trials)
    half = z * math.sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    low, high = ((centre + sign * half) / (1 + z * z / trials) for sign in (-1, 1))
    # Rounding must not separate a share of 0 or 1 from its own bound.
    return (0.0 if share == 0 else max(low, 0.0)), (1.0 if share == 1 else min(high, 1.0))


def _clustered(values: np.ndarray, clusters: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum and the number of values of each cluster, float [m] both."""
    if clusters is None:
        return values, np.ones(values.size)
    labels = np.ravel(clusters)
    if labels.size != values.size:
        raise ValueError(f"{values.size} values but {labels.size} clusters")
    _, group = np.unique(labels, return_inverse=True)
    return np.bincount(group, values), np.bincount(group).astype(np.float64)


def _of_mean(
    values: np.ndarray, sums: np.ndarray, sizes: np.ndarray, rng: np.random.Generator | None
) -> tuple[float, float]:
    """Return the interval of the mean of finite values, given the sums and sizes [m] of clusters."""
    m = sums.size
    if (values == values[0]).all():
        return (float(values[0]), float(values[0])) if m >= FEWEST_EQUAL else NO_INTERVAL
    if m < BOOTSTRAP_FROM:
        return _student(sums, sizes)
    return _bca(sums, sizes, np.random.default_rng(0) if rng is None else rng)


def _student(sums: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    from scipy.special import stdtrit

    m, total = sums.size, sizes.sum()
    mean = sums.sum() / total
    error = math.sqrt(m / (m - 1) * np.square(sums - mean * sizes).sum()) / total
    half = float(stdtrit(m - 1, (1 + LEVEL) / 2)) * error
    return float(mean - half), float(mean + half)


def _bca(sums: np.ndarray, sizes: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval (Efron 1987) of sum(sums) / sum(sizes).

    The normal quantile is replaced by Student's t times sqrt(m / (m - 1)) (Hesterberg 2015), since resampled
    means vary less than means do. So the interval of 20 trials continues that of 19.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    m, total, size = sums.size, sums.sum(), sizes.sum()
    mean = total / size
    step = max(1, _VALUES_AT_ONCE // m)
    resamples = (
        rng.integers(0, m, size=(min(step, RESAMPLES - start), m)) for start in range(0, RESAMPLES, step)
    )
    means = np.concatenate([sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1) for drawn in resamples])
    # Resampled means that equal the mean but for rounding lie half below it.
    same = np.isclose(means, mean, rtol=1e-12, atol=1e-12 * np.abs(sums).max())
    below = (np.count_nonzero((means < mean) & ~same) + 0.5 * np.count_nonzero(same)) / means.size
    shift = float(ndtri(min(max(below, 0.5 / means.size), 1 - 0.5 / means.size)))
    without = (total - sums) / (size - sizes)
    away = without.mean() - without
    spread = np.square(away).sum()
    acceleration = float((away**3).sum() / (6 * spread**1.5)) if spread > 0 else 0.0
    z = math.sqrt(m / (m - 1)) * float(stdtrit(m - 1, (1 + LEVEL) / 2))
    shares = []
    for moved in (shift - z, shift + z):
        rest = 1 - acceleration * moved
        # Beyond its pole the correction means nothing; the bound is then the most extreme resampled mean.
        shares.append(float(ndtr(shift + moved / rest)) if rest > 0 else float(moved > 0))
    low, high = _quantiles(means, shares)
    return low, high


def _capped(
    values: np.ndarray, clusters: np.ndarray | None, rng: np.random.Generator | None
) -> tuple[float, float]:
    """Return the interval of values of which some are infinite, on one side or (no mean) on both."""
    finite = values[np.isfinite(values)]
    infinite = set(values[~np.isfinite(values)])
    if len(infinite) > 1:
        return NO_INTERVAL
    (bound,) = infinite
    if not finite.size:
        return _of_mean(values, *_clustered(values, clusters), rng)
    capped = np.clip(values, finite.min(), finite.max())
    low, high = _of_mean(capped, *_clustered(capped, clusters), rng)
    if math.isnan(low):
        return NO_INTERVAL
    return (low, math.inf) if bound > 0 else (-math.inf, high)


def _bonett_price(more: float, less: float, trials: float) -> tuple[float, float]:
    """Return the interval of a paired difference of shares: `more` pairs are 1 and 0, `less` are 0 and 1."""
    from scipy.special import ndtri

    up, down = ((share * trials + 1) / (trials + 2) for share in (more, less))
    half = float(ndtri((1 + LEVEL) / 2)) * math.sqrt((up + down - (up - down) ** 2) / (trials + 2))
    return max(up - down - half, -1.0), min(up - down + half, 1.0)


def summary(
    values: np.ndarray, failures: np.ndarray, rng: np.random.Generator | None = None,
    clusters: np.ndarray | None = None,
) -> dict[str, float | int]:  # fmt: skip
    """Return mean, std, median, q25, q75, ci_low, ci_high, n, failure_rate of one metric over N trials.

    A trial that is not scored (NaN) enters failure_rate = failures / N and no other number. Nothing is
    capped: one identical pair makes the mean PSNR infinite. `std` is the population's (thesis, Table 3.13),
    and NaN for fewer than two clusters or infinite scores.
    """
    values = np.ravel(np.asarray(values, dtype=np.float64))
    failures = np.ravel(np.asarray(failures, dtype=bool))
    if values.shape != failures.shape:
        raise ValueError(f"{values.size} values but {failures.size} failures")
    if clusters is not None and np.size(clusters) != values.size:
        raise ValueError(f"{values.size} values but {np.size(clusters)} clusters")
    kept = ~np.isnan(values)
    scored = values[kept]
    labels = None if clusters is None else np.ravel(clusters)[kept]
    low, high = interval(scored, labels, rng)
    q25, median, q75 = _quantiles(scored, [0.25, 0.5, 0.75])
    several = len(np.unique(labels)) > 1 if labels is not None else scored.size > 1
    return {
        "mean": float(scored.mean()) if scored.size else math.nan,
        "std": float(scored.std()) if several and np.isfinite(scored).all() else math.nan,
        "median": median, "q25": q25, "q75": q75, "ci_low": low, "ci_high": high, "n": int(scored.size),
        "failure_rate": float(failures.mean()) if failures.size else math.nan,
    }  # fmt: skip


def _quantiles(values: np.ndarray, shares: list[float]) -> list[float]:
    """Return quantiles with linear interpolation; NumPy's own gives NaN between two infinities."""
    if not values.size:
        return [float("nan")] * len(shares)
    ordered = np.sort(values)
    out = []
    for share in shares:
        place = share * (values.size - 1)
        below, above = ordered[int(place)], ordered[min(int(place) + 1, values.size - 1)]
        between = place - int(place)
        out.append(float(below if below == above or not between else below + between * (above - below)))
    return out
