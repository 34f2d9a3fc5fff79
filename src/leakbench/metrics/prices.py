"""What a defence costs: accuracy of the model that the federation trains, and bytes that a client sends."""

import numpy as np

from leakbench.metrics.metric import Metric


def of_rounds(values: np.ndarray, samples: int) -> np.ndarray:
    """Return a value of each round [rounds] for each of its private images, float64 [rounds · samples].

    Accuracy, in [0, 1], is that of the model after the round; bytes are those of the client's update.
    """
    return np.repeat(np.asarray(values, np.float64), samples)


METRICS = (
    Metric("accuracy", of_rounds, "standard", higher_is_better=True, of="models"),
    Metric("update_bytes", of_rounds, "standard", higher_is_better=False, of="updates"),
)
