"""What an attack claims about its own candidates, and how often the claim is wrong."""

import numpy as np

from leakbench.metrics.metric import Metric
from leakbench.metrics.prices import of_rounds


def false_accepted(likeness: np.ndarray, usable: np.ndarray, threshold: float) -> np.ndarray:
    """Return the number of usable candidates of each round that are no private image, int64 [rounds]."""
    found: np.ndarray = ((likeness < threshold).all(-1) & usable).sum(-1)
    return found


METRICS = (
    Metric("false_accepted", false_accepted, "standard", higher_is_better=False, of="updates"),
    # The share of neurons and samples in which the gradient's columns and the samples agree (SPEAR's lambda).
    Metric("agreement", of_rounds, "standard", higher_is_better=True, of="updates"),
)
