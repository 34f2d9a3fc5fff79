"""Disaggregation signal-to-noise ratio (Garov et al., "Hiding in Plain Sight", ICLR 2024): one sample that
outweighs all others of its batch."""

import torch

from leakbench.defences import Batch
from leakbench.detectors import Received

ALARM = 1.0


def d_snr(received: Received) -> float:
    """Return the largest ratio, over the network's tensors, of the largest gradient of a sample to the sum of
    all others'. A batch of one sample tells nothing and returns 0.

    Gradients are measured by their Euclidean length; tensors whose gradients all vanish are left out. Source:
    the paper's section 4.
    """
    if len(received.labels) < 2:
        return 0.0
    weights = {name: value.detach() for name, value in received.model.named_parameters()}
    norms = []
    for few in Batch(received.model, weights, received.images, received.labels).gradients():
        norms.append(torch.stack([value.flatten(1).norm(dim=1) for value in few.values()], 1))
    each = torch.cat(norms).double()
    largest = each.amax(0)
    ratio = largest / (each.sum(0) - largest).clamp_min(1e-30)
    return float(ratio[largest > 0].amax()) if (largest > 0).any() else 0.0
