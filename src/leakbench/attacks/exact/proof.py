"""The proof of a sample from the update alone: its part of the gradient lies in the gradient's own span.

The network behind the layer gives a sample's part of the gradient (`proof`). Where dropout hides that
network, the neurons that are surely closed for a sample determine its column of the gradient. Another sample
that closes the same neurons has that column too, so it proves nothing by itself. Two neurons that hold the
sample alone prove it (`read_twice`); so do the columns of all samples together (`of_all`).
"""

import torch
from torch import Tensor

from leakbench.attacks.exact.columns import alone, columns_of
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.span import Span

VALUES_AT_ONCE = 1 << 22
# If a sample is off by some share, the gradient may be off by this many times that share.
FIT = 10.0
# The margin over the noise of the update.
MARGIN = 100.0
# The rounding of float64 in a computation, and the largest share outside the span that still proves a sample.
LEAST, MOST = 1e-9, 0.1
# The number of times that the same sample may be in a batch.
TIMES = 3


def proof(layer: FirstLayer, seen: Span, samples: Tensor, error: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return labels [n], whether each is proven [n] and what each adds to the layer's offset [n, neurons].

    The gradient is a sum of products of a sample and what it adds to the offset, so what a sample of the
    batch adds, with its label, lies in the span of the gradient's columns. What any other sample adds hardly
    ever does, because the span has as few dimensions as the batch has samples. Where few neurons follow, what
    a sample adds depends on little more than the neurons that it opens, and of two classes both add the same
    up to a factor. So the gradient must also hold the sample, with the label, once, twice or three times
    (`_weight`). A sample is not proven if the noise of the update is too large beside what it adds.
    """
    classes = layer.scores
    # A sample that is in the batch twice takes a dimension from the span. Where none is missing, the mean of
    # two samples that open the same neurons would pass for one that is in the batch twice.
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


def read_twice(
    layer: FirstLayer, seen: Span, samples: Tensor, neurons: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `proof` does, without labels (-1), behind dropout or under an unknown loss.

    A sample is proven if two neurons hold it, it lies in the span of the samples, and its column is proven:
    by the network's derivative, or behind dropout by exactly one direction of the columns' span that is zero
    in all neurons that it closes. Two neurons that are open for several samples seldom mix them alike.
    """
    columns, zero = columns_of(layer, seen, samples)
    read = samples @ seen.right.T
    outside = (samples - read @ seen.right).norm(dim=1) / samples.norm(dim=1)
    near = outside < (MARGIN * seen.noise * seen.values[0] / seen.values[-1]).clamp(LEAST, MOST)
    held = (read * columns / seen.values).sum(1, keepdim=True)
    proven = (neurons > 1) & near & zero
    if not layer.any_loss:
        proven &= alone(layer, seen, samples, columns).proven
    return torch.full((len(samples),), -1), proven, columns @ seen.left.T / held


def of_all(layer: FirstLayer, seen: Span, samples: Tensor, columns: Tensor) -> Tensor:
    """Return whether samples that follow from all columns are proven, bool [rank].

    The gradient is the product of columns and samples, so columns of the batch, up to their lengths, give
    samples of the batch, whatever the network behind the layer. A sample is proven if every column is the
    only direction that is zero in all neurons that its sample closes, and the possible error of all columns
    together (`columns.alone`) leaves the sample in its range and moves it by a share of MOST at most. Columns
    q of which one is a mixture give samples p S R, with p the inverse of the columns and S R the gradient in
    the basis of its span; to first order p is off by the sum of (p · δq) p.
    """
    found = alone(layer, seen, samples, columns)
    if not found.proven.all():
        return found.proven & False
    inverse, failed = torch.linalg.inv_ex(columns.T)
    if failed:
        return found.proven & False
    reach, noise = inverse.norm(dim=1), seen.noise * seen.values[0]
    off = torch.zeros_like(reach)
    sent = seen.left.T @ layer.offset
    of_samples, of_scale = inverse * seen.values, (inverse @ sent)[:, None]
    for parts, blur in ((of_samples, noise), (of_scale, seen.noise * sent.norm())):
        length = parts.norm(dim=1)
        off += reach * ((found.error * length).sum() + blur) / length
    slack = (off * samples.norm(dim=1))[:, None]
    within = ((samples >= layer.low - slack) & (samples <= layer.high + slack)).all(1)
    return within & (off < MOST)


def _weight(
    seen: Span, samples: Tensor, within: Tensor, error: Tensor, noise: Tensor, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the misfit, its slack and the multiplicity of each sample with each label, [n, classes] each.

    The gradient G is M Xᵀ, with samples as columns of X and what they add as columns of M. So xᵀ G⁺ m is one
    for a pair of them, and half of that if the sample is in the batch twice. The misfit is how far the
    gradient is from holding the sample a whole number of times; the slack is how large the misfit may be.
    """
    read, caused = samples @ seen.right.T, within / seen.values
    reach = caused.norm(dim=2)
    held = (read[:, None] * caused).sum(2)
    times = held.reciprocal().nan_to_num().round().clamp(1, most)
    away = (times * held - 1).abs()
    drawn = noise * (read / seen.values).norm(dim=1)
    slack = (FIT * error * read.norm(dim=1) + drawn)[:, None] * reach * times + LEAST
    return away, slack, times
