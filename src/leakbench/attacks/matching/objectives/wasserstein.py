"""A true Wasserstein distance of gradients; GRNN's code gives that name to a Euclidean norm."""

from functools import cache

import torch
from torch import Tensor

from leakbench.attacks.matching.terms import Distance
from leakbench.base.tensors import Tensors

DIRECTIONS = 32


def wasserstein() -> Distance:
    """Return the sliced 2-Wasserstein distance (`sliced_wasserstein`)."""
    return Distance((), lambda products, theirs: torch.zeros_like(theirs), sliced_wasserstein)


def _points(value: Tensor) -> Tensor:
    """Return a layer's gradient [trials, *shape] as points [trials, outputs, inputs], one for each output."""
    return value.flatten(2) if value.dim() > 2 else value[:, :, None]


@cache
def _directions(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return unit vectors [width, DIRECTIONS], always the same for a width."""
    drawn = torch.randn(
        width, DIRECTIONS, generator=torch.Generator().manual_seed(width), dtype=torch.float64
    )
    return (drawn / drawn.norm(dim=0)).to(device, dtype)


def sliced_wasserstein(found: Tensors, observed: Tensors) -> Tensor:
    """Return the root of the summed squared sliced 2-Wasserstein distances of all layers, [trials].

    A layer's gradient is a cloud of points, one for each output, with the weights of its inputs as
    coordinates. On each random direction the distance is that of the sorted projections, which ignores which
    output a point belongs to. It is scaled so that clouds of one point each are as far apart as their
    vectors, on average over directions (Rabin et al. 2012; Bonneel et al. 2015).
    """
    total: list[Tensor] = []
    for name, value in found.items():
        mine, theirs = _points(value), _points(observed[name])
        directions = _directions(mine.shape[2], mine.dtype, mine.device)
        gaps = (mine @ directions).sort(1).values - (theirs @ directions).sort(1).values
        total.append(gaps.square().sum((1, 2)) * (mine.shape[2] / DIRECTIONS))
    squares = torch.stack(total).sum(0)
    return squares.clamp_min(torch.finfo(squares.dtype).tiny).sqrt()
