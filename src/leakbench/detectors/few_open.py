"""Neurons that one or two samples of a batch open, as trap weights and Soliton biases make them."""

from leakbench.detectors import Received
from leakbench.exact.opened import opened

# Share of the neurons that any sample opens.
ALARM = 0.25


def few_open(received: Received) -> float:
    """Return the share of the first dense layer's live neurons that answer to one or two samples of the
    batch; in [0, 1]. A batch of fewer than 8 samples tells nothing and returns 0."""
    if not received.layer or len(received.labels) < 8:
        return 0.0
    layer = received.model.get_submodule(received.layer)
    degrees = opened(received.model, layer, received.images, received.labels)[1].ne(0).sum(0)
    live = degrees > 0
    return float((degrees[live] <= 2).double().mean()) if live.any() else 0.0
