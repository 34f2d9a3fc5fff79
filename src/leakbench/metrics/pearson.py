"""Pearson correlation: Fidel's measure of what a reconstruction reveals (section V; threshold 0.98)."""

import math

import numpy as np
from numpy.typing import DTypeLike

from leakbench.metrics.metric import Metric

THRESHOLD = 0.98
# Below this range a row counts as constant: its values are the rounding of an update that did not happen.
_NO_RANGE = 1e-30


def pearson(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the correlation r of each reconstruction with its image, pixels and channels, float64 [N].

    Both are [N, ...] of one shape and any scale: r does not change under a positive scale and a shift, so
    nothing is clamped. Signed (the paper is silent on |r|): a negative copy does not count as revealed. A row
    that is constant or holds a NaN or an infinity has r = 0.
    """
    if np.shape(reconstructions) != np.shape(truths):
        raise ValueError(f"reconstructions have shape {np.shape(reconstructions)}, truths {np.shape(truths)}")
    shape = (len(reconstructions), math.prod(np.shape(reconstructions)[1:]))
    a, b = (_unit_rows(np.reshape(x, shape), np.float64) for x in (reconstructions, truths))
    return np.clip(np.vecdot(a, b), -1.0, 1.0)


def pearson_matrix(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return r of every row of [..., n, d] with every row of [..., k, d] as float32 [..., n, k].

    One batched matrix product over rows that were centred and scaled to length one; the means are summed in
    float64, so that a large common offset or scale does no harm. Constant rows and rows with NaN or infinity
    have r = 0.
    """
    a, b = _unit_rows(reconstructions, np.float32), _unit_rows(truths, np.float32)
    r = a @ np.swapaxes(b, -1, -2)
    return np.clip(r, -1.0, 1.0, out=r)


def revealed(correlation: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
    """Return which of k images are fully revealed by correlation [..., n, k]: bool [..., k].

    An image counts once however many reconstructions show it; its best one must reach the threshold.
    """
    return np.max(correlation, axis=-2, initial=-np.inf) >= threshold


def _unit_rows(rows: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return rows [..., d] centred and scaled to length one; rows without a correlation become zero."""
    rows = np.asarray(rows)
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        high, low = rows.max(axis=-1, keepdims=True), rows.min(axis=-1, keepdims=True)
        mean = rows.mean(axis=-1, keepdims=True, dtype=np.float64).astype(rows.dtype)
        peak = np.maximum(high - mean, mean - low)
        usable = np.isfinite(peak) & (high - low > _NO_RANGE)
        # Dividing by the largest deviation first keeps the squares of very large and very small rows
        # representable.
        unit = ((rows - mean) / np.where(usable, peak, 1)).astype(dtype, copy=False)
    unit[~usable[..., 0]] = 0
    unit -= unit.mean(axis=-1, keepdims=True)
    length = np.sqrt(np.vecdot(unit, unit))[..., None]
    unit /= np.where(length > 0, length, 1)
    return unit


METRICS = (Metric("pearson", pearson, "standard", higher_is_better=True),)
