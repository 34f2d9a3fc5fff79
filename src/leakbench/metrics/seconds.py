"""The time of an attack: the one metric that differs from run to run and from machine to machine."""

from leakbench.metrics.metric import Metric


def seconds(spent: float, updates: int) -> float:
    """Return an attack's seconds for one update: the updates of a cell run together, so each bears its
    share."""
    return spent / updates


METRICS = (Metric("seconds", seconds, "standard", higher_is_better=False, of="updates"),)
