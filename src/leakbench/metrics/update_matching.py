"""How often an attack recognised a sample in the updates of two epochs (AGIC, Table V)."""

import numpy as np

from leakbench.metrics.metric import Metric


def matching_success(
    partner: np.ndarray, match: np.ndarray, images: np.ndarray, passes: np.ndarray
) -> np.ndarray:
    """Return 1 where an image is paired with itself in the pass before, else 0; NaN in pass 0."""
    there = match >= 0
    rounds = np.nonzero(there)[0]
    shown = np.full(partner.shape, -1)
    shown[rounds, match[there]] = images[there]
    chosen = np.full(match.shape, -1)
    chosen[there] = partner[rounds, match[there]]
    right = (chosen >= 0) & (shown.reshape(-1)[np.maximum(chosen, 0)] == images)
    return np.where(passes[:, None] > 0, right.astype(np.float64), np.nan)


METRICS = (
    Metric("matching_success", matching_success, "standard", higher_is_better=True, of="updates"),
    Metric("matching_success_no_labels", matching_success, "standard", higher_is_better=True, of="updates"),
    Metric("matching_success_no_pooling", matching_success, "standard", higher_is_better=True, of="updates"),
    Metric("matching_success_plain", matching_success, "standard", higher_is_better=True, of="updates"),
)
