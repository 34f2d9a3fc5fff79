"""Which reconstruction belongs to which private image: one answer per batch, used by every metric."""

import numpy as np


def match(cost: np.ndarray) -> np.ndarray:
    """Return which of n reconstructions has each of k images, -1 for none, at the least total cost [n, k]."""
    from scipy.optimize import linear_sum_assignment

    cost = np.asarray(cost, dtype=np.float64)
    if cost.ndim != 2:
        raise ValueError(f"cost has shape {cost.shape}, expected [n, k]")
    index = np.full(cost.shape[1], -1, dtype=np.int64)
    finite = np.isfinite(cost)
    if finite.any():
        low, high = cost[finite].min(), cost[finite].max()
        # One bad pair must outweigh the best saving that all other pairs together can give.
        cost = np.where(finite, cost - low, (high - low + 1.0) * (min(cost.shape) + 1))
    else:
        cost = np.zeros_like(cost)
    rows, columns = linear_sum_assignment(cost)
    index[columns] = rows
    return index


def best(similarity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most similar of n reconstructions for each of k images, which may share it, as in Fidel."""
    similarity = np.asarray(similarity)
    if similarity.shape[-2] == 0:
        shape = (*similarity.shape[:-2], similarity.shape[-1])
        return np.full(shape, -1, dtype=np.int64), np.full(shape, np.nan)
    ordered = np.where(np.isnan(similarity), -np.inf, similarity)
    index = ordered.argmax(axis=-2)
    value = np.take_along_axis(similarity, index[..., None, :], axis=-2)[..., 0, :]
    nothing = np.isnan(similarity).all(axis=-2)
    return np.where(nothing, -1, index), np.where(nothing, np.nan, value)
