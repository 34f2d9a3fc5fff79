"""By how much the loss of a trial still fell when its run ended."""

import numpy as np

# The smallest number of kept losses that shows anything: five in each quarter of the run.
POINTS = 20


def falls(losses: np.ndarray) -> np.ndarray:
    """Return the share by which each trial's loss fell in the last half of its run, 0 if it ended before."""
    losses = np.asarray(losses, np.float64)
    quarter = losses.shape[-1] // 4
    if losses.shape[-1] < POINTS:
        return np.empty(0)
    before, after = (
        np.median(part, -1) for part in (losses[..., -2 * quarter : -quarter], losses[..., -quarter:])
    )
    ended = ~np.isfinite(losses[..., -1]) | (before <= 0)
    return np.where(ended, 0.0, 1 - after / np.where(ended, 1.0, before))
