"""How far dummy gradients are from observed ones: one value for each trial."""

from collections.abc import Sequence

import torch
from torch import Tensor

from leakbench.attacks.matching.terms import Distance
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors, over


def added(distances: Sequence[Distance]) -> Distance:
    """Return the sum of distances. The sum of none is a distance of zero."""
    if len(distances) == 1:
        return distances[0]
    wholes = [each.whole for each in distances if each.whole]

    def value(known: Tensors, theirs: Tensor) -> Tensor:
        return torch.stack([_checked(each.value(known, theirs), len(theirs)) for each in distances]).sum(0)

    def whole(found: Tensors, observed: Tensors) -> Tensor:
        return torch.stack([each(found, observed) for each in wholes]).sum(0)

    return Distance(
        tuple(dict.fromkeys(product for each in distances for product in each.of)),
        value,
        whole if wholes else None,
    )


def products(of: Sequence[str], found: Tensors, observed: Tensors, weights: Tensors | None = None) -> Tensors:
    """Return the inner products of gradients found and observed, summed over all parameters."""
    # Parameter by parameter, so that what one product has read is still in the cache for the next product.
    total: dict[str, list[Tensor]] = {kind: [] for kind in of}
    for name, o in observed.items():
        both = factors(of, found[name], o)
        for kind in of:
            total[kind].append(inner(*both[kind]) if weights is None else inner(*both[kind]) * weights[name])
    return {kind: torch.stack(values).sum(0) for kind, values in total.items()}


def factors(of: Sequence[str], g: Tensor, o: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """Return product name → the two factors of the product of a gradient g and the observed gradient o."""
    apart = g - o if "gap" in of else g
    return {"dot": (g, o), "mine": (g, g), "gap": (apart, apart)}


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product of a and b for each trial, [trials, *shape] → [trials]."""
    if a.shape[0] == 1:
        return torch.dot(in_memory(a), in_memory(b))[None]
    if a is b:
        return torch.linalg.vector_norm(a, dim=tuple(range(1, a.dim()))).square()
    return (a * b).sum(tuple(range(1, a.dim())))


def in_memory(value: Tensor) -> Tensor:
    """Return all numbers in the order of memory, which must be the same for both factors of a product."""
    return (value.permute(0, 1, 3, 4, 2) if value.dim() == 5 else value).reshape(-1)


def laid_out(gradient: Tensor) -> Tensor:
    """Return gradients [trials, *shape]; those of convolutions have the channels last, as in the engine."""
    if gradient.dim() != 5:
        return gradient
    return gradient.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)


def derivative(distance: Distance, known: Tensors, theirs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a distance, along and across: its derivative is weights · (along · o + across · g)."""
    none = torch.zeros_like(theirs)
    if distance.slopes:
        value = _checked(distance.value(known, theirs), len(theirs))
        slope = distance.slopes(known, theirs)
    else:
        with torch.enable_grad():
            parts = {kind: known[kind].detach().requires_grad_() for kind in distance.of}
            value = _checked(distance.value(parts, theirs), len(theirs))
            if not parts:
                return value, none, none
            slope = dict(zip(parts, torch.autograd.grad(value.sum(), list(parts.values())), strict=True))
    along = slope.get("dot", none) - 2 * slope.get("gap", none)
    across = 2 * slope.get("mine", none) + 2 * slope.get("gap", none)
    return value.detach(), along, across


def _checked(value: Tensor, trials: int) -> Tensor:
    if value.shape != (trials,):
        shape = " x ".join(map(str, value.shape)) or "a number"
        raise Unfit(f"attack: objective: a distance gives {shape}, not a value for each of {trials} trials")
    return value


def with_cotangent(
    distance: Distance, found: Tensors, observed: Tensors, weights: Tensors | None, theirs: Tensor
) -> tuple[Tensor, Tensors]:
    """Return a distance of gradients and its derivative at those found, without the term `whole`."""
    losses, along, across = derivative(distance, products(distance.of, found, observed, weights), theirs)
    moves = {}
    for name, o in observed.items():
        each = [value if weights is None else value * weights[name] for value in (along, across)]
        first, second = (over(value, o) for value in each)
        if distance.of == ("gap",):
            # The difference itself loses less to rounding than the sum of two multiples.
            moves[name] = (found[name] - o).mul_(second)
        else:
            moves[name] = (o * first).addcmul_(found[name], second)
    return losses, moves


def whole_derivative(distance: Distance, found: Tensors, observed: Tensors) -> tuple[Tensor, Tensors]:
    """Return the term `whole` of a distance, [trials], and its derivative at each dummy gradient."""
    assert distance.whole is not None
    leaves = {name: value.detach().requires_grad_() for name, value in found.items()}
    value = _checked(distance.whole(leaves, observed), len(next(iter(observed.values()))))
    return value.detach(), dict(
        zip(leaves, torch.autograd.grad(value.sum(), list(leaves.values())), strict=True)
    )
