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


def products(of: Sequence[str], found: Tensors, observed: Tensors, weights: Tensors | None = None) -> Tensors:
    """Return product name → [trials], summed over all parameters, of gradients found and observed.

    found, observed: parameter → [trials, *shape]; weights: parameter → [trials], how much it counts.
    """
    # Parameter by parameter: what one product reads is still in the processor's cache for the next.
    total: dict[str, list[Tensor]] = {kind: [] for kind in of}
    for name, o in observed.items():
        g = found[name]
        apart = g - o if "gap" in of else g
        pairs = {"dot": (g, o), "mine": (g, g), "gap": (apart, apart)}
        for kind in of:
            total[kind].append(
                inner(*pairs[kind]) if weights is None else inner(*pairs[kind]) * weights[name]
            )
    return {kind: torch.stack(values).sum(0) for kind, values in total.items()}


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of each trial's, [trials, *shape] → [trials]."""
    if len(a) == 1:
        return torch.dot(_run(a), _run(b))[None]
    if a is b:
        return torch.linalg.vector_norm(a, dim=tuple(range(1, a.dim()))).square()
    return (a * b).sum(tuple(range(1, a.dim())))


def _run(value: Tensor) -> Tensor:
    """Return all numbers in memory's own order, which must be the same for both factors of a product."""
    return (value.permute(0, 1, 3, 4, 2) if value.dim() == 5 else value).reshape(-1)


def laid_out(gradient: Tensor) -> Tensor:
    """Return gradients [trials, *shape], of convolutions with the channels last as the engine has them."""
    if gradient.dim() != 5:
        return gradient
    return gradient.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def derivative(distance: Distance, known: Tensors, theirs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distance and its derivative at the dummy gradient g: weights · (along · o + across · g). All
    [trials].

    `known` holds the products that the distance reads. Without the term `whole`.
    """
    none = torch.zeros_like(theirs)
    with torch.enable_grad():
        parts = {kind: known[kind].detach().requires_grad_() for kind in distance.of}
        value = distance.value(parts, theirs)
        if not parts:
            return value, none, none
        slope = dict(zip(parts, torch.autograd.grad(value.sum(), list(parts.values())), strict=True))
    along = slope.get("dot", none) - 2 * slope.get("gap", none)
    across = 2 * slope.get("mine", none) + 2 * slope.get("gap", none)
    return value.detach(), along, across


def with_cotangent(
    distance: Distance, found: Tensors, observed: Tensors, weights: Tensors | None, theirs: Tensor
) -> tuple[Tensor, Tensors]:
    """Return the distance [trials] of gradients, parameter → [trials, *shape], and its derivative at those
    found, without the term `whole`.

    weights: parameter → [trials], or none: one for all. theirs: the squared norms of `observed` by them.
    """
    losses, along, across = derivative(distance, products(distance.of, found, observed, weights), theirs)
    moves = {}
    for name, o in observed.items():
        each = [value if weights is None else value * weights[name] for value in (along, across)]
        first, second = (value.view(-1, *[1] * (o.dim() - 1)) for value in each)
        if distance.of == ("gap",):
            # The difference itself, which rounding leaves more of than of two multiples.
            moves[name] = (found[name] - o).mul_(second)
        else:
            moves[name] = (o * first).addcmul_(found[name], second)
    return losses, moves


def whole_derivative(distance: Distance, found: Tensors, observed: Tensors) -> tuple[Tensor, Tensors]:
    """Return the term `whole` [trials] and its derivative at each dummy gradient."""
    assert distance.whole is not None
    leaves = {name: value.detach().requires_grad_() for name, value in found.items()}
    value = distance.whole(leaves, observed)
    return value.detach(), dict(
        zip(leaves, torch.autograd.grad(value.sum(), list(leaves.values())), strict=True)
    )
