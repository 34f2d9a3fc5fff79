"""Exact recovery: whether an image would be stored in the same bytes."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric


def exact(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return 1 where all pixels of a pair [N, C, H, W] have the same 8-bit level, else 0, float64 [N].

    The mean over a batch is the share of the batch that was recovered (arXiv:2609.09659, Table II; its text
    does not state the tolerance).
    """
    a, b = pair(reconstructions, truths)
    same: np.ndarray = (np.rint(255.0 * a) == np.rint(255.0 * b)).all(axis=(1, 2, 3))
    return same.astype(np.float64)


METRICS = (Metric("exact", exact, "standard", higher_is_better=True),)
