"""Structural similarity (Wang et al. 2004) as scikit-image computes it."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric

WINDOW = 7


def ssim(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the mean SSIM of images [N, C, H, W], float64 [N] in [-1, 1]; 1 for identical images.

    Uniform 7×7 window, sample covariance, K1 = 0.01, K2 = 0.03, mean over channels: scikit-image's, FedKL's.
    """
    from skimage.metrics import structural_similarity

    a, b = pair(reconstructions, truths)
    height, width = a.shape[2:]
    if min(height, width) < WINDOW:
        raise ValueError(f"ssim: images of {height}×{width} are smaller than its {WINDOW}×{WINDOW} window")
    scores = [
        structural_similarity(x, y, win_size=WINDOW, data_range=1.0, channel_axis=0)
        for x, y in zip(a, b, strict=True)
    ]
    return np.array(scores, dtype=np.float64)


METRICS = (Metric("ssim", ssim, "standard", higher_is_better=True),)
