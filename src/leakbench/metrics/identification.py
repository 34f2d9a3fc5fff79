"""Whether a reconstruction is recognised as its own image among others, instead of by eye."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric
from leakbench.metrics.mse import mse, mse_matrix

# The number of images among which a private one must be recognised.
POOL = 1000


def identified(reconstructions: np.ndarray, truths: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Return 1 where no image of the pool is nearer to the reconstruction than its own image, else 0."""
    a, b = pair(reconstructions, truths)
    own = mse(a, b)
    nearest = mse_matrix(a, pool).min(axis=1)
    # The private image itself may be in the pool: it is as near up to rounding.
    return np.where(np.isnan(own), np.nan, (nearest >= own - 1e-9).astype(np.float64))


METRICS = (Metric("identified", identified, "standard", higher_is_better=True, needs=("pool",)),)
