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
    """Weights of parameters in every distance of an objective.

    of: (group) → a function from observed gradients, parameter → [trials, *shape], to weights, parameter →
    [trials].
    """

    of: Callable[[Group], Callable[[Tensors], Tensors]]


class Prior(NamedTuple):
    """A term for how unlikely images are, whatever their gradients are.

    weight: the weight of the prior in the objective, at least 0.
    of: (group) → a `Valued` function of the group's images.
    """

    weight: float
    of: Callable[[Group], Valued]


class Entries(NamedTuple):
    """The entries of the gradients that every distance of an objective compares; it ignores all others.

    of: a function from observed gradients, parameter → [trials, *shape], to the same shapes with 1 where an
    entry is compared and 0 elsewhere.
    """

    of: Callable[[Tensors], Tensors]


class Penalty(NamedTuple):
    """A penalty on how the distances change with the dummies.

    of: a function from one that gives the distances of dummies and their derivatives to one that gives both
    with the penalty added.
    """

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
