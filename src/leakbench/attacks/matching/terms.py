"""The terms of an objective: distances, weights of layers, choices of entries, penalties and priors."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors

# From images [trials, batch, …] in the victim's normalised space to values [trials] and their derivative.
Valued = Callable[[Tensor], tuple[Tensor, Tensor]]


class Distance(NamedTuple):
    """A distance of gradients as a function of a few inner products.

    The products are those of the dummy gradient g and the observed gradient o, summed over all parameters,
    each with its weight.

    of: the products that the distance reads: `dot` (g·o), `mine` (g·g), `gap` (|g − o|²).
    value: (products, theirs) → distance [trials]. `products` is name → [trials], and `theirs` [trials] are
    the squared norms of o.
    whole: (dummy, observed) → a further term [trials] that needs the gradients themselves, parameter →
    [trials, *shape] each.
    slopes: (products, theirs) → name → the derivative of `value` in this product, [trials]. Without it
    autograd takes the derivatives, which takes a third of a millisecond.
    """

    of: tuple[str, ...]
    value: Callable[[Tensors, Tensor], Tensor]
    whole: Callable[[Tensors, Tensors], Tensor] | None = None
    slopes: Callable[[Tensors, Tensor], Tensors] | None = None


class Weights(NamedTuple):
    """Weights of parameters in every distance: (group) → (observed gradients) → parameter → [trials]."""

    of: Callable[[Group], Callable[[Tensors], Tensors]]


class Prior(NamedTuple):
    """A term, times `weight`, for how unlikely images are, whatever their gradients: (group) → `Valued`."""

    weight: float
    of: Callable[[Group], Valued]


class Entries(NamedTuple):
    """The entries that distances compare: (observed gradients) → 1 there and 0 elsewhere, in their shapes."""

    of: Callable[[Tensors], Tensors]


class Penalty(NamedTuple):
    """A penalty on how distances change: from a function of distances and slopes to one with it added."""

    of: Callable[[Evaluate], Evaluate]


Term = Distance | Weights | Entries | Penalty | Prior


def differentiated(value: Callable[[Tensor], Tensor]) -> Valued:
    """Return a function of images that gives its value [trials] and its derivative, by autograd."""

    def valued(images: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = images.detach().requires_grad_()
            found = value(leaf)
            (slope,) = torch.autograd.grad(found.sum(), leaf)
        return found.detach(), slope

    return valued
