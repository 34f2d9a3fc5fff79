"""Which part of a reconstruction is wrong: its coarse structure or its details, and its colours."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric

# The lowest quarter of the frequencies of each side counts as coarse: 8×8 of 32×32 cosines.
COARSE = 4


def coarse_error(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the share of the squared error that lies in low frequencies, float64 [N] in [0, 1].

    The images are [N, C, H, W]. Frequencies are those of the cosine transform, and the lowest quarter of them
    down and across counts as low. The share is NaN where the two images are equal.
    """
    from scipy.fft import dctn

    a, b = pair(reconstructions, truths)
    squares = np.square(dctn(a - b, axes=(2, 3), norm="ortho"))
    total = squares.sum((1, 2, 3))
    down, across = (max(1, side // COARSE) for side in squares.shape[2:])
    low = squares[:, :, :down, :across].sum((1, 2, 3))
    return np.divide(low, total, out=np.full(len(total), np.nan), where=total > 0)


def colour_error(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the Euclidean distance of the mean colours of images [N, C, H, W], float64 [N] in [0, √C]."""
    a, b = pair(reconstructions, truths)
    return np.sqrt(np.square((a - b).mean((2, 3))).sum(1))


METRICS = (
    Metric("coarse_error", coarse_error, "standard", higher_is_better=False),
    Metric("colour_error", colour_error, "standard", higher_is_better=False),
)
