"""Whether a reconstruction shows which image it came from: recognising it among others, instead of by eye."""

import numpy as np

from leakbench.metrics.images import pair
from leakbench.metrics.metric import Metric
from leakbench.metrics.mse import mse, mse_matrix

# Images among which a private one must be recognised.
POOL = 1000


def identified(reconstructions: np.ndarray, truths: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Return 1 where no image of `pool` [M, C, H, W] is nearer to the reconstruction than its own image, else
    0.

    By squared error; float64 [N], NaN where there is no reconstruction. The private images may be in the
    pool.
    """
    a, b = pair(reconstructions, truths)
    own = mse(a, b)
    nearest = mse_matrix(a, pool).min(axis=1)
    # An image of the pool that is the private one itself is as near but for rounding.
    return np.where(np.isnan(own), np.nan, (nearest >= own - 1e-9).astype(np.float64))


METRICS = (Metric("identified", identified, "standard", higher_is_better=True, needs=("pool",)),)
