"""What a table says of many scores: mean with a bootstrap interval, median, quartiles, failures."""

import numpy as np

RESAMPLES = 2000
_VALUES_AT_ONCE = 2_000_000


def bootstrap_mean(
    values: np.ndarray,
    rng: np.random.Generator,
    *,
    clusters: np.ndarray | None = None,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval (low, high) of the mean of values [n] (Efron 1979).

    `clusters` [n] labels values that share one fate: whole clusters are drawn then, and the mean of a draw is the
    sum of its values over their number, so that large clusters weigh as much as they do in the mean itself.
    Same generator state, same interval. Fewer than two values (clusters) say nothing about spread: both bounds
    are NaN. Equal values give (value, value). A bound is infinite where the resampled means are.
    Raises ValueError if there are not as many labels as values.
    """
    values = np.ravel(np.asarray(values, dtype=np.float64))
    sums: np.ndarray = values
    sizes: np.ndarray = np.ones(values.size)
    if clusters is not None:
        labels = np.ravel(clusters)
        if labels.size != values.size:
            raise ValueError(f"{values.size} values but {labels.size} clusters")
        _, group = np.unique(labels, return_inverse=True)
        sums, sizes = np.bincount(group, values), np.bincount(group)
    n = sums.size
    if n < 2 or np.isnan(values).any():
        return float("nan"), float("nan")
    if (values == values[0]).all():
        return float(values[0]), float(values[0])
    rows = max(1, _VALUES_AT_ONCE // n)
    means = []
    for start in range(0, resamples, rows):
        drawn = rng.integers(0, n, size=(min(rows, resamples - start), n))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    tail = (1.0 - level) / 2.0
    low, high = _quantiles(np.concatenate(means), [tail, 1.0 - tail])
    return low, high


def summary(
    values: np.ndarray,
    failures: np.ndarray,
    rng: np.random.Generator | None = None,
    clusters: np.ndarray | None = None,
) -> dict[str, float | int]:
    """Return mean, std, median, q25, q75, ci_low, ci_high, n, failure_rate of one metric over N trials.

    `values` float [N] has one score per trial, `failures` bool [N] says which trials diverged or gave
    nothing. A failed trial that has a score (that of `baselines.blank`, say) counts in the mean like any
    other. NaN means not scored: it enters failure_rate = failures / N, but no other number, and n is the
    number of scores used. Nothing is capped: one identical pair makes the mean PSNR inf, and the median and
    quartiles are what remains to compare. `rng` draws the bootstrap; without it a fixed seed does.
    `clusters` [N] labels trials that share one fate (the images of one update): the interval then comes from
    resampled clusters. `std` is the population's standard deviation over all scores (divided by n, as thesis Table
    3.13 prints it: one label wrong in ten batches of four is 0.075); like the interval it is NaN for fewer than two
    trials (clusters), and where a score is infinite. Raises ValueError if the three do not have one length.
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
    low, high = bootstrap_mean(scored, np.random.default_rng(0) if rng is None else rng, clusters=labels)
    q25, median, q75 = _quantiles(scored, [0.25, 0.5, 0.75])
    several = len(np.unique(labels)) > 1 if labels is not None else scored.size > 1
    return {
        "mean": float(scored.mean()) if scored.size else float("nan"),
        "std": float(scored.std()) if several and np.isfinite(scored).all() else float("nan"),
        "median": median,
        "q25": q25,
        "q75": q75,
        "ci_low": low,
        "ci_high": high,
        "n": int(scored.size),
        "failure_rate": float(failures.mean()) if failures.size else float("nan"),
    }


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
