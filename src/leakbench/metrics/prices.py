"""Numbers of a whole update: the cost of a defence, the cost of an attack, how well its gradients match."""

import numpy as np

from leakbench.metrics.metric import Metric


def of_rounds(values: np.ndarray, samples: int) -> np.ndarray:
    """Return the value of each round [rounds] for each of its private images, float64 [rounds · samples].

    Accuracy, in [0, 1], is that of the model after the round. Bytes are those of the client's update. The
    squared error is that of a reconstruction's gradients against those observed, as the attack gives it.
    """
    return np.repeat(np.asarray(values, np.float64), samples)


def seconds(spent: float, updates: float) -> float:
    """Return an attack's seconds for one update.

    The updates of a cell run together, so each of them bears an equal share. No other metric differs from run
    to run and from machine to machine.
    """
    return spent / updates


METRICS = (
    Metric("accuracy", of_rounds, "standard", higher_is_better=True, of="models"),
    Metric("update_bytes", of_rounds, "standard", higher_is_better=False, of="updates"),
    Metric("gradient_mse", of_rounds, "standard", higher_is_better=False, of="updates"),
    Metric("seconds", seconds, "standard", higher_is_better=False, of="updates"),
)
