"""What an update says of a reconstruction, without the truth."""

import numpy as np

from leakbench.metrics.metric import Metric


def span_distance(distances: np.ndarray) -> np.ndarray:
    """Return the share of each reconstruction's length that lies outside the span of its update, 0 to 1.

    The attack's job computes it, since it takes no truth (`exact.membership`), where the first dense layer
    reads pixels. 0 is what an image of the batch has, and a mixture of several.
    """
    return distances


METRICS = (Metric("span_distance", span_distance, "standard", higher_is_better=False, of="updates"),)
