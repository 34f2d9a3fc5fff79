"""How far dummy gradients are from those observed: one value for each trial."""

from collections.abc import Sequence

import torch
from torch import Tensor

from leakbench.matching.terms import Distance
from leakbench.tensors import Tensors


def added(distances: Sequence[Distance]) -> Distance:
    """Return the sum of distances; none at all is a distance of zero."""
    wholes = [each.whole for each in distances if each.whole]

    def value(known: Tensors, theirs: Tensor) -> Tensor:
        return torch.stack([each.value(known, theirs) for each in distances]).sum(0)

    def whole(found: Tensors, observed: Tensors) -> Tensor:
        return torch.stack([each(found, observed) for each in wholes]).sum(0)

    return Distance(
        tuple(dict.fromkeys(product for each in distances for product in each.of)),
        value,
        whole if wholes else None,
    )


def products(of: Sequence[str], g: Tensor, o: Tensor, weights: Tensor | None = None) -> Tensors:
    """Return product name → [trials] of gradients [trials, n], by `weights` alike or all by one."""

    def weighed(x: Tensor) -> Tensor:
        return x if weights is None else x * weights

    def gap() -> Tensor:
        apart = g - o
        return (apart * weighed(apart)).sum(1)

    ways = {
        "dot": lambda: torch.linalg.vecdot(weighed(g), o),
        "mine": lambda: torch.linalg.vecdot(weighed(g), g),
        "gap": gap,
    }
    return {kind: ways[kind]() for kind in of}


def derivative(distance: Distance, known: Tensors, theirs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distance and its derivative at the dummy gradient g: weights · (along · o + across · g). All
    [trials].

    `known` holds the products that the distance reads. Without the term `whole`.
    """
    parts = {kind: known[kind].detach().requires_grad_() for kind in distance.of}
    value = distance.value(parts, theirs)
    none = torch.zeros_like(theirs)
    if not parts:
        return value, none, none
    slope = dict(zip(parts, torch.autograd.grad(value.sum(), list(parts.values())), strict=True))
    along = slope.get("dot", none) - 2 * slope.get("gap", none)
    across = 2 * slope.get("mine", none) + 2 * slope.get("gap", none)
    return value.detach(), along, across


def with_cotangent(
    distance: Distance, g: Tensor, o: Tensor, weights: Tensor | None, theirs: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the distance [trials] of gradients [trials, n] and its derivative at the dummy one g, without
    the term `whole`.

    `weights` [trials, n] or none: one for all. `theirs`: the squared norms of o by them.
    """
    if distance.of == ("gap",):
        # All that is read is the difference, and the derivative is a multiple of it: two passes less.
        apart = g - o
        weighed = apart if weights is None else apart * weights
        losses, _, across = derivative(distance, {"gap": torch.linalg.vecdot(weighed, apart)}, theirs)
        return losses, weighed.mul_(across[:, None])
    losses, along, across = derivative(distance, products(distance.of, g, o, weights), theirs)
    moves = (o * along[:, None]).add_(g * across[:, None])
    return losses, moves if weights is None else moves.mul_(weights)


def whole_derivative(distance: Distance, found: Tensors, observed: Tensors) -> tuple[Tensor, Tensors]:
    """Return the term `whole` [trials] and its derivative at each dummy gradient."""
    assert distance.whole is not None
    leaves = {name: value.detach().requires_grad_() for name, value in found.items()}
    value = distance.whole(leaves, observed)
    return value.detach(), dict(
        zip(leaves, torch.autograd.grad(value.sum(), list(leaves.values())), strict=True)
    )
