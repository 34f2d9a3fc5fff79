"""Mean squared error, and the root of it that Table 5.6 of Ren's thesis prints as "MSE"."""

import math

import numpy as np

from leakbench.metrics.images import displayed, pair
from leakbench.metrics.metric import Metric


def mse(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the mean squared difference of each pair of images [N, C, H, W], float64 [N] in [0, 1]."""
    a, b = pair(reconstructions, truths)
    return np.square(a - b).mean(axis=(1, 2, 3))


def rmse_255(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the root of the mean squared difference on the scale 0..255, float64 [N] in [0, 255].

    FedKL's `evaluation_metrics.py` computes it, and thesis Table 5.6 prints it as "MSE". That code reads
    8-bit files; their rounding is not imitated, so that nearly exact reconstructions keep their order.
    """
    return 255.0 * np.sqrt(mse(reconstructions, truths))


def mse_matrix(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the mean squared difference of every reconstruction [n, …] to every image [k, …], [n, k]."""
    a, b = displayed(reconstructions), displayed(truths)
    if a.shape[1:] != b.shape[1:]:
        raise ValueError(f"reconstructions are {a.shape[1:]} each, truths {b.shape[1:]}")
    values = math.prod(a.shape[1:])
    a, b = a.reshape(len(a), values), b.reshape(len(b), values)
    squares = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)[None, :]
    return np.maximum(squares - 2.0 * a @ b.T, 0.0) / values


METRICS = (
    Metric("mse", mse, "standard", higher_is_better=False),
    Metric("rmse_255", rmse_255, "published", higher_is_better=False),
)
