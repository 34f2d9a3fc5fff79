"""How much of an image its feature maps show (Fidel, Fig. 6)."""

import numpy as np

from leakbench.metrics.metric import Metric
from leakbench.metrics.pearson import pearson_matrix


def channel_pearson(features: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the mean |r| of an image's feature channels with the grey image, shrunk to h×w, float64 [N]."""
    from skimage.transform import resize

    grey = images.mean(axis=1)
    small = resize(grey, (len(grey), *features.shape[2:]), order=1, anti_aliasing=True)
    r = pearson_matrix(features.reshape(*features.shape[:2], -1), small.reshape(len(grey), 1, -1))
    # A filter may invert, so the sign does not count. A constant channel has r = 0.
    return np.abs(r[..., 0]).mean(axis=1, dtype=np.float64)


METRICS = (Metric("channel_pearson", channel_pearson, "standard", higher_is_better=True, of="features"),)
