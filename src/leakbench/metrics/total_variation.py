"""Total variation: whether a reconstruction is noisier or smoother than the image (Fidel, Fig. 8)."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric


def total_variation(images: np.ndarray) -> np.ndarray:
    """Return the mean absolute difference of neighbouring pixels of images [N, C, H, W], float64 [N]."""
    down = np.abs(np.diff(images, axis=-2)).mean(axis=(1, 2, 3))
    across = np.abs(np.diff(images, axis=-1)).mean(axis=(1, 2, 3))
    return (down + across).astype(np.float64)


def tv_ratio(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the total variation of reconstructions over their images', float64 [N]; above 1 is noisier."""
    a, b = pair(reconstructions, truths)
    true = total_variation(b)
    return np.divide(total_variation(a), true, out=np.full(len(true), np.nan), where=true > 0)


METRICS = (Metric("tv_ratio", tv_ratio, "standard", higher_is_better=False),)
