"""The span of a batch: the gradient of a dense layer is a sum of products δ xᵀ, one for each sample."""

from typing import NamedTuple

import torch
from torch import Tensor

from leakbench.base.errors import Unfit

# The number of columns of a random projection beyond the batch, in which noise behind the samples shows.
MORE = 16
# A singular value belongs to the samples if it is this many times the first that belongs to the noise.
CLEAR = 10.0
# The rounding of a singular value that is zero, in units of the precision.
ROUNDED = 1e3
# The bound below which a value is zero, in units of the noise, and the least one, the rounding of float64.
ZERO, LEAST = 2e3, 1e-9
# Rows that are nearly parallel count as one: all neurons that one sample alone opens have such rows.
PARALLEL = 1e-4
# A row of a basis is dead if it is shorter than this share of the longest.
DEAD = 1e-5


class Span(NamedTuple):
    """A gradient [neurons, inputs] as left · diag(values) · right, without its noise.

    left: [neurons, rank], orthonormal columns.
    values: [rank], falling.
    right: [rank, inputs], orthonormal rows, which span the samples.
    noise: the largest singular value that was cut off, relative to the first.
    entry: the error of an entry of the gradient if the noise were white.
    """

    left: Tensor
    values: Tensor
    right: Tensor
    noise: float
    entry: float

    @property
    def zero(self) -> float:
        """Return the bound below which a row of length one times a direction counts as zero."""
        return max(ZERO * self.noise, LEAST)


def span(slope: Tensor, batch: int, clear: float = CLEAR) -> Span | None:
    """Return the span of the samples behind a gradient; none if noise leaves none.

    Raises Unfit for numbers whose products are not finite.
    """
    if not min(slope.shape) > batch or not slope.any():
        return None
    width = min(batch + MORE, *slope.shape)
    rng = torch.Generator().manual_seed(0)
    mixed = slope @ torch.randn(slope.shape[1], width, generator=rng, dtype=slope.dtype)
    # The basis goes through the gradient once more, so that small singular values are as sharp as large ones.
    basis = torch.linalg.qr(slope @ (slope.T @ torch.linalg.qr(mixed).Q)).Q
    small = basis.T @ slope
    if not small.isfinite().all():
        raise Unfit("attack: the update's numbers are too large to be multiplied (are they an update's?)")
    left, values, right = torch.linalg.svd(small, full_matrices=False)
    eps = torch.finfo(slope.dtype).eps
    # A batch of fewer different samples has a smaller rank, beyond which there is only rounding.
    rank = int((values[:batch] > (clear * values[batch]).clamp_min(ROUNDED * eps * values[0])).sum())
    if not rank:
        return None
    noise = max(float(values[rank] / values[0]), eps)
    entry = noise * float(values[0]) / sum(side**0.5 for side in slope.shape)
    return Span(basis @ left[:, :rank], values[:rank], right[:rank], noise, entry)


def null(rows: Tensor) -> Tensor:
    """Return the direction [rank] that is nearest to orthogonal to all rows [n, rank]."""
    return torch.linalg.eigh(rows.T @ rows).eigenvectors[:, 0]


def unit_rows(left: Tensor) -> tuple[Tensor, Tensor]:
    """Return the live rows of a basis [neurons, rank] at length one, and which [neurons] are alive."""
    length = left.norm(dim=1)
    alive = length > DEAD * length.max()
    return left[alive] / length[alive, None], alive


def unlike(rows: Tensor, sine: float = PARALLEL) -> Tensor:
    """Return rows [n, rank] of length one without those that are nearly parallel to an earlier row."""
    parallel = (rows @ rows.T).abs() > 1 - sine**2 / 2
    return rows[first_alike(parallel) == torch.arange(len(rows))]


def first_alike(alike: Tensor) -> Tensor:
    """Return for each row of a symmetric, reflexive relation [n, n] the first row related to it, [n]."""
    return (~alike).cumprod(1).sum(1)
