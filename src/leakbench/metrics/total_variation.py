"""Total variation: whether a reconstruction is noisier or smoother than the image (Fidel, Fig. 8)."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric


def total_variation(images: np.ndarray) -> np.ndarray:
    """Return the mean absolute difference of neighbouring pixels in both directions, float64 [N].

    images: [N, C, H, W].
    """
    down = np.abs(np.diff(images, axis=-2)).mean(axis=(1, 2, 3))
    across = np.abs(np.diff(images, axis=-1)).mean(axis=(1, 2, 3))
    return (down + across).astype(np.float64)


def tv_ratio(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the total variation of each reconstruction over that of its image, float64 [N].

    Both are [N, C, H, W] in [0, 1]. A reconstruction above 1 is noisier than the image, one below 1 smoother.
    A constant image has no ratio: NaN.
    """
    a, b = pair(reconstructions, truths)
    true = total_variation(b)
    return np.divide(total_variation(a), true, out=np.full(len(true), np.nan), where=true > 0)


METRICS = (Metric("tv_ratio", tv_ratio, "standard", higher_is_better=False),)
