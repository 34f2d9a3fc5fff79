"""What an update tells about a reconstruction without the truth."""

import numpy as np

from leakbench.metrics.metric import Metric


def span_distance(distances: np.ndarray) -> np.ndarray:
    """Return the share of each reconstruction's length that lies outside the span of its update, 0 to 1.

    The attack's job computes the share, because no truth is needed for it (`exact.membership`), where the
    first dense layer reads pixels. An image of the batch has 0, and so has a mixture of several.
    """
    return distances


METRICS = (Metric("span_distance", span_distance, "standard", higher_is_better=False, of="updates"),)
