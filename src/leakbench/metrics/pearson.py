"""Pearson correlation: Fidel's measure of what a reconstruction reveals (section V; threshold 0.98)."""

import math

import numpy as np
from numpy.typing import DTypeLike

from leakbench.metrics.metric import Metric

THRESHOLD = 0.98
# A row with a smaller range counts as constant: its values are the rounding of a zero update.
_NO_RANGE = 1e-30
# Between these bounds, squared lengths keep all their digits in float32.
_SMALLEST, _LARGEST = 1e-20, 1e30
# The least standard deviation, as a share of the mean, at which the rounding of the mean is negligible.
_SPREAD = 1e-3
# The number of values that are centred at once: half a megabyte, which stays in a core's cache for the
# product.
_CACHED_FLOATS = 1 << 17


def pearson(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the correlation r of each reconstruction with its image, pixels and channels, float64 [N].

    The sign counts: a negative copy is not revealed. A row that is constant or not finite has r = 0.
    """
    if np.shape(reconstructions) != np.shape(truths):
        raise ValueError(f"reconstructions have shape {np.shape(reconstructions)}, truths {np.shape(truths)}")
    shape = (len(reconstructions), math.prod(np.shape(reconstructions)[1:]))
    a, b = (_unit_rows(np.reshape(x, shape), np.float64) for x in (reconstructions, truths))
    return np.clip(np.vecdot(a, b), -1.0, 1.0)


def pearson_matrix(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return r of every row of [..., n, d] with every row of [..., k, d] as float32 [..., n, k]."""
    rows, others = np.asarray(reconstructions), np.asarray(truths)
    (*lead, n, d), k = rows.shape, others.shape[-2]
    batches = math.prod(lead)
    rows, others = rows.reshape(batches, n, d), others.reshape(batches, k, d)
    r = np.empty((batches, n, k), np.float32)
    step = max(1, _CACHED_FLOATS // max(1, n * d))
    for start in range(0, batches, step):
        part = slice(start, start + step)
        (a, of_a), (b, of_b) = _centred(rows[part]), _centred(others[part])
        np.matmul(a, np.swapaxes(b, -1, -2), out=r[part])
        r[part] *= of_a
        r[part] *= np.swapaxes(of_b, -1, -2)
    return np.clip(r, -1.0, 1.0, out=r).reshape(*lead, n, k)


def revealed(correlation: np.ndarray, threshold: float = THRESHOLD) -> np.ndarray:
    """Return which of k images some row of correlation [..., n, k] reveals, bool [..., k]."""
    return np.max(correlation, axis=-2, initial=-np.inf) >= threshold


def _centred(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return centred rows, float32 [..., d], and factors [..., 1] that turn their products into r."""
    if rows.dtype != np.float32:
        return _unit_rows(rows, np.float32), np.ones((*rows.shape[:-1], 1), np.float32)
    d = rows.shape[-1]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        mean = (rows @ np.full((d, 1), 1 / max(1, d), np.float32)).astype(np.float32, copy=False)
        centred = rows - mean
        square = np.vecdot(centred, centred)[..., None]
        usual = (square > np.maximum(_SMALLEST, d * (_SPREAD * mean) ** 2)) & (square < _LARGEST)
    inverse = np.ones_like(square)
    np.divide(1, np.sqrt(square, where=usual, out=inverse), where=usual, out=inverse)
    if not usual.all():
        rest = np.argwhere(~usual[..., 0])
        values = rows[tuple(rest.T)]
        # A neuron without any change has a row of zeros, which stays zero.
        live = (values.max(-1, initial=0) != 0) | (values.min(-1, initial=0) != 0)
        if live.any():
            centred[tuple(rest[live].T)] = _unit_rows(values[live], np.float32)
    return centred, inverse


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
