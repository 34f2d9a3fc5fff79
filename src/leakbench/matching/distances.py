"""How far dummy gradients are from those observed: one value for each trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.matching.sliced_wasserstein import sliced_wasserstein

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Distance:
    """A distance of gradients as a function of a few products of each parameter's: dummy g with observed o.

    of: which products it reads. value(products, theirs, weights): products name → [trials, parameters], `theirs` the
    squared norms of o, `weights` those of the layers, alike; returns [trials]. `whole`: a further term [trials] that needs
    the gradients themselves, dummy and observed (parameter → [trials, *shape]).
    """

    of: tuple[str, ...]
    value: Callable[[Tensors, Tensor, Tensor], Tensor]
    whole: Callable[[Tensors, Tensors], Tensor] | None = None


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "dot": torch.linalg.vecdot,
    "mine": lambda g, o: torch.linalg.vecdot(g, g),
    "gap": lambda g, o: (g - o).square().sum(-1),
}


def _cosine(products: Tensors, theirs: Tensor, weights: Tensor) -> Tensor:
    dot, mine = (weights * products["dot"]).sum(1), (weights * products["mine"]).sum(1)
    return 1 - dot / (mine.sqrt() * (weights * theirs).sum(1).sqrt())


def _squares(products: Tensors, theirs: Tensor, weights: Tensor) -> Tensor:
    return (weights * products["gap"]).sum(1)


def _norm(products: Tensors, theirs: Tensor, weights: Tensor) -> Tensor:
    # Its derivative at zero is taken to be zero.
    return _squares(products, theirs, weights).clamp_min(torch.finfo(theirs.dtype).tiny).sqrt()


_TERMS = {
    # DLG, Eqn 3: the sum of squared differences.
    "squares": Distance(("gap",), _squares),
    # What GRNN's code calls Wasserstein distance: the Euclidean norm of the difference.
    "norm": Distance(("gap",), _norm),
    # InvG, Eqn 4, and with weights AGIC, Eqn 6: one minus the cosine over all parameters.
    "cosine": Distance(("dot", "mine"), _cosine),
    "wasserstein": Distance(
        (), lambda products, theirs, weights: torch.zeros_like(theirs[:, 0]), sliced_wasserstein
    ),
}


def distance_of(name: str) -> Distance:
    """Return the distance of a name: a term, or several joined by `+`, which are added. Raises KeyError for another."""
    terms = [_TERMS[term] for term in name.split("+")]
    return Distance(
        tuple(dict.fromkeys(product for term in terms for product in term.of)),
        lambda *parts: torch.stack([term.value(*parts) for term in terms]).sum(0),
        next((term.whole for term in terms if term.whole), None),
    )


def products(of: Sequence[str], found: Tensors, observed: Tensors) -> Tensors:
    """Return product name → [trials, parameters] of gradients [trials, *shape]."""
    flat = [(g.flatten(1), observed[name].flatten(1)) for name, g in found.items()]
    return {kind: torch.stack([PRODUCTS[kind](g, o) for g, o in flat], 1) for kind in of}


def derivative(
    distance: Distance, known: Tensors, theirs: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distance [trials] and its derivative at each dummy gradient g: along · o + across · g.

    `known` holds the products that the distance reads; `along` and `across` are [trials, parameters]. Without the term
    `whole`.
    """
    parts = {kind: known[kind].detach().requires_grad_() for kind in distance.of}
    value = distance.value(parts, theirs, weights)
    none = torch.zeros_like(theirs)
    if not parts:
        return value, none, none
    slope = dict(zip(parts, torch.autograd.grad(value.sum(), list(parts.values())), strict=True))
    along = slope.get("dot", none) - 2 * slope.get("gap", none)
    across = 2 * slope.get("mine", none) + 2 * slope.get("gap", none)
    return value.detach(), along, across


def whole_derivative(distance: Distance, found: Tensors, observed: Tensors) -> tuple[Tensor, Tensors]:
    """Return the term `whole` [trials] and its derivative at each dummy gradient."""
    assert distance.whole is not None
    leaves = {name: value.detach().requires_grad_() for name, value in found.items()}
    value = distance.whole(leaves, observed)
    return value.detach(), dict(
        zip(leaves, torch.autograd.grad(value.sum(), list(leaves.values())), strict=True)
    )
