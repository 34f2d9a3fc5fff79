"""What proves a sample from the update alone: its part of the gradient lies in the gradient's own span."""

import torch
from torch import Tensor

from leakbench.exact.first_layer import FirstLayer
from leakbench.exact.span import Span

VALUES_AT_ONCE = 1 << 22
# Of a sample that is off by some share, the gradient may be off by this many times that share.
FIT = 10.0
# The margin over the noise of the update.
MARGIN = 100.0
# What float64 leaves of a computation, and the largest share outside the span that still proves anything.
LEAST, MOST = 1e-9, 0.1


def proof(layer: FirstLayer, seen: Span, samples: Tensor, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels [n], whether each is proven [n] and what each adds to the layer's offset [n, neurons].

    samples: [n, inputs]. error: [n], the share by which each may be off. The layer's gradient is a sum of
    products of what a sample adds to the offset and the sample. So a sample of the batch, with its label,
    adds what lies in the span of the gradient's columns. Hardly any other does, for the span has as few
    dimensions as the batch has samples. The label is the one of which the smallest share lies outside. A
    sample is not proven if the noise of the update is too large beside what it adds.
    """
    classes = layer.logits(layer.bias[None]).shape[1]
    size = max(1, VALUES_AT_ONCE // (classes * len(layer.bias)))
    found: list[tuple[Tensor, ...]] = []
    for part, share in zip(samples.split(size), error.split(size), strict=True):
        caused = layer.caused(part)
        length = caused.norm(dim=2).clamp_min(torch.finfo(caused.dtype).tiny)
        outside = (caused - (caused @ seen.left) @ seen.left.T).norm(dim=2) / length
        misfit, label = outside.min(1)
        caused, length = (value[torch.arange(len(part)), label] for value in (caused, length))
        noise = MARGIN * seen.noise * seen.values[0] / (length * part.norm(dim=1))
        allowed = FIT * share + noise + LEAST
        found.append((label, misfit < allowed.clamp_max(MOST), caused))
    labels, proven, caused = (torch.cat(values) for values in zip(*found, strict=True))
    return labels, proven, caused
