"""The columns of the gradient, as the neurons that samples close determine them.

The gradient of a dense layer is M [neurons, samples], what each sample adds to each neuron's offset, times
the samples. A column of M in the basis of a `Span` is a direction of length one.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from leakbench.attacks.exact import any_loss
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.span import PARALLEL, Span, null, unit_rows, unlike

# The number of neurons beyond the rank that a sample must close; with fewer, zeros prove nothing.
SPARE = 8
# The largest accepted probability that a direction that is no column is zero in all neurons by chance.
CHANCE = 1e-9
# A neuron is surely closed if its output is below zero by this share of the largest output.
NEARLY = 1e-3
# The least value that the brightest pixel of a sample may have, as a share of the range.
FAINT = 0.2


class Alone(NamedTuple):
    """Whether the neurons that each sample closes determine its column, and how well.

    proven: bool [n], whether exactly one direction is zero in all of them, and not by chance.
    error: [n], by how much the direction, of length one, may be off.
    """

    proven: Tensor
    error: Tensor


def alone(layer: FirstLayer, seen: Span, samples: Tensor, columns: Tensor) -> Alone:
    """Return whether columns are the only directions that are zero in the neurons that their samples close.

    With a second column that is zero in them, every mixture of both would be. Let A be the unit rows of k
    closed neurons. If a direction q is zero in all of them, A q has a length of at most √k times `Span.zero`,
    so the second smallest singular value of A must be larger.

    The k neurons, of which parallel ones count once, are equations for the rank - 1 unknowns of a direction.
    Each spare equation holds by chance with a probability of at most √(2 rank / π) · zero, where rows are
    spread evenly; all together may do so with at most CHANCE.

    The true column c and the given q are both near the direction for which |A q| is least: within |A c| and
    |A q|, each divided by the second singular value. The residual |A q| estimates the noise of the rows, and
    with it |A c|.
    """
    rows, alive = unit_rows(seen.left)
    rank = rows.shape[1]
    by_chance = min(1.0, math.sqrt(2 * rank / math.pi) * seen.zero)
    proven = torch.zeros(len(samples), dtype=torch.bool)
    error = torch.full((len(samples),), torch.inf, dtype=rows.dtype)
    for place, (closed, q) in enumerate(zip(_closed(layer, samples)[:, alive], columns, strict=True)):
        left = unlike(rows[closed], max(PARALLEL, seen.zero))
        spare = len(left) - rank + 1
        if spare < 1 or by_chance**spare > CHANCE or bool(((left @ q).abs() > seen.zero).any()):
            continue
        second = float(torch.linalg.svdvals(left)[-2]) if rank > 1 else math.inf
        proven[place] = second > math.sqrt(len(left)) * seen.zero
        error[place] = 2 * float((left @ q).norm()) * math.sqrt(len(left) / spare) / second
    return Alone(proven, error)


def columns_of(layer: FirstLayer, seen: Span, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns [n, rank] of nearly known samples, and whether each is a column, bool [n].

    A nearly known sample tells which neurons are closed for it, to which it adds nothing. So its column is as
    exact as the gradient. A direction is a column if it is zero in all of these neurons, and if there are
    more of them than any direction could be zero in. If the network behind the layer is known, but not the
    loss, its derivative gives the column.
    """
    if layer.any_loss:
        return any_loss.columns_of(layer, seen, samples)
    return _of_closed(seen, _closed(layer, samples))


def last_column(layer: FirstLayer, seen: Span, columns: Tensor) -> Tensor:
    """Return the column that all others determine, as [1, rank], or none, [0, rank].

    The last sample is orthogonal to all other columns, which determines it up to its scale. Pixels must lie
    in their range, which bounds the scale. Few neurons are closed for a part of the possible scales only.
    """
    if layer.any_loss:
        return any_loss.last_column(layer, seen, columns)
    ray = null(columns) * seen.values @ seen.right
    rays = torch.stack([ray, -ray])
    most = torch.where(rays > 0, layer.high / rays, layer.low / rays).nan_to_num(torch.inf).amin(1)
    ends = most * torch.tensor([[FAINT], [1.0]], dtype=most.dtype)
    closed = (ends[:, :, None] * (rays @ layer.weight.T) + layer.bias < 0).all(0)
    found, proven = _of_closed(seen, closed)
    return found[proven][:1]


def _closed(layer: FirstLayer, samples: Tensor) -> Tensor:
    """Return which neurons [n, neurons] are surely closed for samples [n, inputs] that are nearly known."""
    outputs = samples @ layer.weight.T + layer.bias
    return outputs < -NEARLY * outputs.abs().amax(1, keepdim=True)


def _of_closed(seen: Span, closed: Tensor) -> tuple[Tensor, Tensor]:
    """Return what `columns_of` does, for samples that surely close the neurons `closed` [n, neurons]."""
    rows, alive = unit_rows(seen.left)
    closed = closed[:, alive]
    found = rows.new_empty(len(closed), rows.shape[1])
    for place, each in enumerate(closed):
        found[place] = null(rows[each])
    opened = ((rows @ found.T).abs() > seen.zero).T
    return found, ~(opened & closed).any(1) & (closed.sum(1) >= rows.shape[1] + SPARE)
