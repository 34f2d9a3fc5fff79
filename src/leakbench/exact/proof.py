"""What proves a sample from the update alone: its part of the gradient lies in the gradient's own span.

A sample's part of the gradient is computed with the network behind the layer, or, where dropout hides which
part of it was used, by the neurons that are surely closed for the sample.
"""

import torch
from torch import Tensor

from leakbench.exact.columns import columns_of
from leakbench.exact.first_layer import FirstLayer
from leakbench.exact.span import Span

VALUES_AT_ONCE = 1 << 22
# Of a sample that is off by some share, the gradient may be off by this many times that share.
FIT = 10.0
# The margin over the noise of the update.
MARGIN = 100.0
# What float64 leaves of a computation, and the largest share outside the span that still proves anything.
LEAST, MOST = 1e-9, 0.1
# The same sample may be in a batch up to this number of times.
TIMES = 3


def proof(layer: FirstLayer, seen: Span, samples: Tensor, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels [n], whether each is proven [n] and what each adds to the layer's offset [n, neurons].

    samples: [n, inputs]. error: [n], the share by which each may be off. The layer's gradient is a sum of
    products of what a sample adds to the offset and the sample. So a sample of the batch, with its label,
    adds what lies in the span of the gradient's columns. Hardly any other does, for the span has as few
    dimensions as the batch has samples. Where few neurons follow, what a sample adds depends on little more
    than the neurons that it opens, and of two classes both add the same but for a factor. So the gradient
    must also hold the sample, with the label, once, twice or three times (`_weight`); it then adds as often.
    A sample is not proven if the noise of the update is too large beside what it adds.

    Behind dropout nothing tells the label, which is -1. A sample is proven if it lies in the span of the
    samples, and the span of the columns has a direction that is zero wherever the sample closes a neuron.
    """
    if layer.logits is None:
        columns, proven = columns_of(layer, seen, samples)
        read = samples @ seen.right.T
        outside = (samples - read @ seen.right).norm(dim=1) / samples.norm(dim=1)
        near = outside < (MARGIN * seen.noise * seen.values[0] / seen.values[-1]).clamp(LEAST, MOST)
        held = (read * columns / seen.values).sum(1, keepdim=True)
        return torch.full((len(samples),), -1), proven & near, columns @ seen.left.T / held
    classes = layer.logits(layer.bias[None]).shape[1]
    # A sample that is there twice takes a dimension from the span. Where none is missing, the mean of two
    # samples that open the same neurons would pass for one that is there twice.
    most = min(TIMES, 1 + max(0, layer.batch - len(seen.values)))
    size = max(1, VALUES_AT_ONCE // (classes * len(layer.bias)))
    found: list[tuple[Tensor, ...]] = []
    for part, share in zip(samples.split(size), error.split(size), strict=True):
        caused = layer.caused(part)
        length = caused.norm(dim=2).clamp_min(torch.finfo(caused.dtype).tiny)
        within = caused @ seen.left
        outside = (caused - within @ seen.left.T).norm(dim=2) / length
        noise = MARGIN * seen.noise * seen.values[0]
        allowed = FIT * share[:, None] + noise / (length * part.norm(dim=1, keepdim=True)) + LEAST
        away, slack, times = _weight(seen, part, within, share, noise, most)
        fits = (outside < allowed.clamp_max(MOST)) & (away < slack) & (slack < MOST)
        label = torch.where(fits, away, torch.inf).argmin(1)
        rows = torch.arange(len(part))
        found.append((label, fits[rows, label], caused[rows, label] * times[rows, label, None]))
    labels, proven, caused = (torch.cat(values) for values in zip(*found, strict=True))
    return labels, proven, caused


def _weight(
    seen: Span, samples: Tensor, within: Tensor, error: Tensor, noise: Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return how far the gradient is from holding each sample [n, inputs] with each label a whole number of
    times, how far it may be, and that number: [n, classes] each.

    within: [n, classes, rank], what a sample adds to the offset, in the basis of the span. error: [n], the
    share by which samples may be off. noise: what the gradient may be off by. most: the largest number that a
    sample may be there. The gradient G is M Xᵀ, with
    samples as columns of X and what they add as columns of M, so xᵀ G⁺ m is one for a pair of them, and half
    of that if the sample is there twice.
    """
    read, caused = samples @ seen.right.T, within / seen.values
    reach = caused.norm(dim=2)
    held = (read[:, None] * caused).sum(2)
    times = held.reciprocal().nan_to_num().round().clamp(1, most)
    away = (times * held - 1).abs()
    drawn = noise * (read / seen.values).norm(dim=1)
    slack = (FIT * error * read.norm(dim=1) + drawn)[:, None] * reach * times + LEAST
    return away, slack, times
