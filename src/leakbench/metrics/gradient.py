"""How far the gradients of reconstructions are from those observed, as the attack tells it."""

import numpy as np

from leakbench.metrics.metric import Metric


def gradient_mse(gaps: np.ndarray, samples: int) -> np.ndarray:
    """Return one value for each of the `samples` of every update: `Reconstruction.gap` of its update, [rounds · samples]."""
    return np.repeat(np.asarray(gaps, np.float64), samples)


METRICS = (Metric("gradient_mse", gradient_mse, "standard", higher_is_better=False, of="updates"),)
