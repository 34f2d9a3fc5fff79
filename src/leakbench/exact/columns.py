"""The columns of the gradient, as the samples tell them.

The gradient of a dense layer is a matrix M [neurons, samples], of what each sample adds to each neuron's
offset, times the samples. A column of M in the basis of a `Span` is a direction of length one.
"""

import torch
from torch import Tensor

from leakbench.exact.first_layer import FirstLayer
from leakbench.exact.span import Span, unit_rows

# Neurons beyond the rank that must be closed for a sample, or zeros prove nothing.
SPARE = 8
# A neuron is surely closed if its output is below zero by this share of the largest.
NEARLY = 1e-3
# The faintest that the brightest pixel of a sample may be, as a share of the range.
FAINT = 0.2


def null(rows: Tensor) -> Tensor:
    """Return the direction [rank] that is nearest to orthogonal to all rows [n, rank]."""
    vectors: Tensor = torch.linalg.eigh(rows.T @ rows).eigenvectors
    return vectors[:, 0]


def columns_of(layer: FirstLayer, seen: Span, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns [n, rank] of samples [n, inputs] that are nearly known, and whether each is one [n].

    A ReLU adds nothing to neurons that are closed for a sample, and which these are a nearly known sample
    tells. So its column is as exact as the gradient, whatever the sample's own error. It is one if it is zero
    in all of these neurons, and they are more than any direction could be zero in.
    """
    outputs = samples @ layer.weight.T + layer.bias
    return _of_closed(seen, outputs < -NEARLY * outputs.abs().amax(1, keepdim=True))


def last_column(layer: FirstLayer, seen: Span, columns: Tensor) -> Tensor:
    """Return the column that all others [rank - 1, rank] leave, [1, rank], or none, [0, rank].

    The last sample is orthogonal to all other columns, which tells it but for its scale. Pixels must lie in
    their range, which bounds the scale, and few neurons are closed for one half of the scales alone.
    """
    ray = null(columns) * seen.values @ seen.right
    rays = torch.stack([ray, -ray])
    most = torch.where(rays > 0, layer.high / rays, layer.low / rays).nan_to_num(torch.inf).amin(1)
    ends = most * torch.tensor([[FAINT], [1.0]], dtype=most.dtype)
    closed = (ends[:, :, None] * (rays @ layer.weight.T) + layer.bias < 0).all(0)
    found, proven = _of_closed(seen, closed)
    return found[proven][:1]


def _of_closed(seen: Span, closed: Tensor) -> tuple[Tensor, Tensor]:
    """Return for samples that surely close neurons [n, neurons] what `columns_of` does."""
    rows, alive = unit_rows(seen.left)
    closed = closed[:, alive]
    found = rows.new_empty(len(closed), rows.shape[1])
    for place, each in enumerate(closed):
        found[place] = null(rows[each])
    opened = ((rows @ found.T).abs() > seen.zero).T
    return found, ~(opened & closed).any(1) & (closed.sum(1) >= rows.shape[1] + SPARE)
