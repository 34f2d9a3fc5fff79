"""From the columns of the gradient to its samples, and back.

The gradient of a dense layer is a matrix M [neurons, samples], of what each sample adds to each neuron's
offset, times the samples. A column of M in the basis of a `Span` is a direction of length one.
"""

import torch
from torch import Tensor

from leakbench.exact.first_layer import FirstLayer
from leakbench.exact.proof import proof
from leakbench.exact.span import Span, unit_rows


def null(rows: Tensor) -> Tensor:
    """Return the direction [rank] that is nearest to orthogonal to all rows [n, rank]."""
    vectors: Tensor = torch.linalg.eigh(rows.T @ rows).eigenvectors
    return vectors[:, 0]


def columns_of(layer: FirstLayer, seen: Span, samples: Tensor) -> Tensor:
    """Return the columns [n, rank] of samples [n, inputs] that are nearly known.

    A ReLU adds nothing to neurons that are closed for a sample, and which these are a nearly known sample
    tells. So its column is as exact as the gradient, whatever the sample's own error.
    """
    rows, alive = unit_rows(seen.left)
    closed = (samples @ layer.weight.T + layer.bias < 0)[:, alive]
    found = rows.new_empty(len(samples), rows.shape[1])
    for place, each in enumerate(closed):
        found[place] = null(rows[each])
    return found


def samples_of(layer: FirstLayer, seen: Span, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return the proven samples [n, inputs] and their labels [n] that follow from all columns [rank,
    rank]."""
    scale = torch.linalg.lstsq(seen.left @ columns.T, layer.offset[:, None]).solution
    samples = torch.linalg.lstsq(columns.T * scale.T, seen.values[:, None] * seen.right).solution
    labels, proven, _ = proof(layer, seen, samples, samples.new_full((len(samples),), seen.noise))
    return samples[proven], labels[proven]
