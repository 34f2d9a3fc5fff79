"""Neurons that only one or two records of a batch open, as trap weights and Soliton biases make them."""

from leakbench.attacks.exact.opened import opened
from leakbench.federation.detectors import Received

# The share of the neurons that at least one sample opens.
ALARM = 0.25


def few_open(received: Received) -> float:
    """Return the share of live neurons that one or two samples of the batch open, in [0, 1].

    The neurons are those of the first dense layer. Raises Unfit for a batch of fewer than 8 samples, and
    without such a layer.
    """
    images, labels = received.records(8)
    degrees = opened(received.model, received.layer, images, labels)[1].ne(0).sum(0)
    live = degrees > 0
    return float((degrees[live] <= 2).double().mean()) if live.any() else 0.0
