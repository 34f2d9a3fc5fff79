"""Numbers of a whole update: the cost of a defence and of an attack, and what an attack claims by itself."""

import numpy as np

from leakbench.metrics.metric import Metric


def of_rounds(values: np.ndarray, samples: int) -> np.ndarray:
    """Return the value of each round [rounds] for each of its private images, float64 [rounds · samples]."""
    return np.repeat(np.asarray(values, np.float64), samples)


def seconds(spent: float, updates: float) -> float:
    """Return an attack's seconds for one update, since the updates of a cell run together."""
    return spent / updates


def span_distance(distances: np.ndarray) -> np.ndarray:
    """Return the share of each reconstruction outside the span of its update, 0 to 1 (`exact.membership`)."""
    return distances


def false_accepted(likeness: np.ndarray, usable: np.ndarray, threshold: float) -> np.ndarray:
    """Return the number of usable candidates of each round that are no private image, int64 [rounds]."""
    found: np.ndarray = ((likeness < threshold).all(-1) & usable).sum(-1)
    return found


METRICS = (
    Metric("accuracy", of_rounds, "standard", higher_is_better=True, of="models"),
    Metric("update_bytes", of_rounds, "standard", higher_is_better=False, of="updates"),
    Metric("gradient_mse", of_rounds, "standard", higher_is_better=False, of="updates"),
    Metric("seconds", seconds, "standard", higher_is_better=False, of="updates"),
    Metric("span_distance", span_distance, "standard", higher_is_better=False, of="updates"),
    Metric("false_accepted", false_accepted, "standard", higher_is_better=False, of="updates"),
    # The share of neurons and samples in which the gradient's columns and the samples agree (SPEAR's lambda).
    Metric("agreement", of_rounds, "standard", higher_is_better=True, of="updates"),
)
