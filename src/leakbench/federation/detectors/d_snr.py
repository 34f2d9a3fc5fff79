"""One record whose gradient outweighs those of all others of its batch together (D-SNR of Garov et al.)."""

import torch

from leakbench.base.errors import Unfit
from leakbench.defences import Batch
from leakbench.federation.detectors import Received
from leakbench.networks.layers import by_batch

ALARM = 1.0


def d_snr(received: Received) -> float:
    """Return the disaggregation signal-to-noise ratio, the largest over the network's tensors.

    The ratio of a tensor is the largest gradient of a sample over the sum of the gradients of all others.
    Gradients are measured by their Euclidean length; tensors whose gradients all vanish are left out. Source:
    Garov et al., "Hiding in Plain Sight" (ICLR 2024), section 4.

    Raises Unfit for a batch of one sample, and where batch norm ties samples together.
    """
    images, labels = received.by_entropy(2)
    if by_batch(received.model):
        raise Unfit("batch norm by the batch at hand gives no record a gradient of its own")
    weights = {name: value.detach() for name, value in received.model.named_parameters()}
    norms = []
    for few in Batch(received.model, weights, images, labels).gradients():
        norms.append(torch.stack([value.flatten(1).norm(dim=1) for value in few.values()], 1))
    each = torch.cat(norms).double()
    largest = each.amax(0)
    ratio = largest / (each.sum(0) - largest).clamp_min(1e-30)
    return float(ratio[largest > 0].amax()) if (largest > 0).any() else 0.0
