"""How far dummy gradients are from those observed: one value for each trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.matching.sliced_wasserstein import sliced_wasserstein
from leakbench.tensors import Tensors


@dataclass(frozen=True)
class Distance:
    """A distance of gradients as a function of a few products of dummy g and observed o, summed over all
    parameters.

    of: which products it reads. value(products, theirs): products name → [trials], `theirs` the squared norms
    of o alike, all by the weights of the layers; returns [trials]. `whole`: a further term [trials] that
    needs the gradients themselves, dummy and observed (parameter → [trials, *shape]).
    """

    of: tuple[str, ...]
    value: Callable[[Tensors, Tensor], Tensor]
    whole: Callable[[Tensors, Tensors], Tensor] | None = None


def _cosine(products: Tensors, theirs: Tensor) -> Tensor:
    return 1 - products["dot"] / (products["mine"].sqrt() * theirs.sqrt())


def _norm(products: Tensors, theirs: Tensor) -> Tensor:
    # Its derivative at zero is taken to be zero.
    return products["gap"].clamp_min(torch.finfo(theirs.dtype).tiny).sqrt()


_TERMS = {
    # DLG, Eqn 3: the sum of squared differences.
    "squares": Distance(("gap",), lambda products, theirs: products["gap"]),
    # What GRNN's code calls Wasserstein distance: the Euclidean norm of the difference.
    "norm": Distance(("gap",), _norm),
    # InvG, Eqn 4, and with weights AGIC, Eqn 6: one minus the cosine over all parameters.
    "cosine": Distance(("dot", "mine"), _cosine),
    "wasserstein": Distance((), lambda products, theirs: torch.zeros_like(theirs), sliced_wasserstein),
}


def distance_of(name: str) -> Distance:
    """Return the distance of a name: a term, or several joined by `+`, which are added. Raises KeyError for
    another."""
    terms = [_TERMS[term] for term in name.split("+")]
    return Distance(
        tuple(dict.fromkeys(product for term in terms for product in term.of)),
        lambda *parts: torch.stack([term.value(*parts) for term in terms]).sum(0),
        next((term.whole for term in terms if term.whole), None),
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
