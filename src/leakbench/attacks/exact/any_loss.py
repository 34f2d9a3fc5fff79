"""The proof of a sample from an update of any loss, whose derivative by the scores nobody knows.

A sample adds Jᵀ e to the gradient of the layer's bias, with J the derivative of the network's scores by the
layer's output and e that of the loss by the scores. So the span of Jᵀ, which the server computes, meets that
of the gradient's columns in the sample's column. For other samples it hardly ever does.
"""

import torch
from torch import Tensor

from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.span import Span, null

# The margin over the noise of the update; the rounding of sines, and the largest that still proves a sample.
MARGIN, LEAST, MOST = 100.0, 1e-7, 0.001
# A second direction in which both spans meet this nearly leaves the column open.
APART = 10.0
# Numbers that are computed at once.
AT_ONCE = 1 << 22
# The least scale of the last sample, as a share of the largest that keeps it in its range.
FAINT = 0.05


def columns_of(layer: FirstLayer, seen: Span, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns [n, rank] of samples, of length one, and whether each is a column, bool [n]."""
    found: list[tuple[Tensor, Tensor]] = []
    scores = layer.scores
    for part in samples.split(max(1, AT_ONCE // (scores * len(layer.bias)))):
        basis = torch.linalg.qr(layer.linear(part)[1].mT).Q
        inside = basis.mT @ seen.left
        outside = basis - seen.left @ inside.mT
        squares, directions = torch.linalg.eigh(outside.mT @ outside)
        sines = squares.clamp_min(0.0).sqrt()
        column = torch.einsum("nkr,nk->nr", inside, directions[:, :, 0])
        read = part @ seen.right.T
        # What the sample adds has the length 1 / held, beside which the update's noise is small or not.
        held = (read * column / seen.values).sum(1).abs()
        allowed = (MARGIN * seen.noise * seen.values[0] * held / part.norm(dim=1)).clamp(LEAST, MOST)
        alone = sines[:, 1] > APART * allowed if scores > 1 else torch.ones(len(part), dtype=torch.bool)
        found.append((column, (sines[:, 0] < allowed) & alone & squares.isfinite().all(1)))
    columns, proven = (torch.cat(each) for each in zip(*found, strict=True))
    return columns, proven


def last_column(layer: FirstLayer, seen: Span, columns: Tensor) -> Tensor:
    """Return the column that all others leave, as [1, rank], or none, [0, rank].

    The last sample is orthogonal to all other columns, which determines it up to its scale. J changes only at
    scales at which a neuron opens or closes, so one scale between each two of them is tried.
    """
    ray = null(columns) * seen.values @ seen.right
    tried = []
    for way in (ray, -ray):
        most = torch.where(way > 0, layer.high / way, layer.low / way).nan_to_num(torch.inf).amin()
        turns = -layer.bias / (layer.weight @ way)
        ends = most * torch.tensor([FAINT, 1.0], dtype=way.dtype)
        turns = torch.cat([ends, turns[(turns > ends[0]) & (turns < ends[1])]]).sort().values
        tried.append((turns[1:] + turns[:-1])[:, None] / 2 * way)
    found, proven = columns_of(layer, seen, torch.cat(tried))
    return found[proven][:1]


def of_any_loss(layer: FirstLayer, seen: Span, samples: Tensor, columns: Tensor) -> Tensor:
    """Return whether samples that follow from all columns are proven, bool [rank].

    All columns together say how much of each sample the gradient holds: with a mixture among the samples,
    another one would not have its own column.
    """
    own, proven = columns_of(layer, seen, samples)
    return proven & (torch.cosine_similarity(own, columns).abs() > 1 - LEAST)
