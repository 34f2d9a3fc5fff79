"""What an objective is made of: distances of gradients, weights of layers in them, the entries that they
compare, penalties on how they change, and priors of images."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.matching.optimiser import Evaluate
from leakbench.matching.trials import Group
from leakbench.tensors import Tensors

# Images [trials, batch, channels, rows, columns] in the victim's normalised space in; a value for each trial,
# and its derivative in the images, out.
Valued = Callable[[Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Distance:
    """A distance of gradients as a function of a few products of dummy g and observed o, summed over all
    parameters.

    of: the products that it reads: `dot` (g·o), `mine` (g·g), `gap` (|g − o|²). value(products, theirs):
    products name → [trials], `theirs` the squared norms of o alike, all by the weights of the layers; returns
    [trials]. whole: a further term [trials] that needs the gradients themselves, dummy and observed
    (parameter → [trials, *shape]).
    """

    of: tuple[str, ...]
    value: Callable[[Tensors, Tensor], Tensor]
    whole: Callable[[Tensors, Tensors], Tensor] | None = None


@dataclass(frozen=True)
class Weights:
    """Weights of parameters in every distance of an objective.

    of(group): a function from observed gradients, parameter → [trials, *shape], to weights, parameter →
    [trials].
    """

    of: Callable[[Group], Callable[[Tensors], Tensors]]


@dataclass(frozen=True)
class Prior:
    """How unlikely images are, whatever their gradients.

    weight: of the prior in the objective, at least 0. of(group): a `Valued` function of the group's images.
    """

    weight: float
    of: Callable[[Group], Valued]


@dataclass(frozen=True)
class Entries:
    """The entries of the gradients that every distance of an objective compares; the others count nothing.

    of(observed): parameter → [trials, *shape] in; the same with 1 where an entry counts and 0 elsewhere out.
    """

    of: Callable[[Tensors], Tensors]


@dataclass(frozen=True)
class Penalty:
    """A penalty on how the distances change with the dummies.

    of(matched): a function that gives the distances of dummies and their derivatives in; the same with the
    penalty added out.
    """

    of: Callable[[Evaluate], Evaluate]


Term = Distance | Weights | Entries | Penalty | Prior


def differentiated(value: Callable[[Tensor], Tensor]) -> Valued:
    """Return a function images → [trials] with its derivative, which the tape takes."""

    def valued(images: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = images.detach().requires_grad_()
            found = value(leaf)
            (slope,) = torch.autograd.grad(found.sum(), leaf)
        return found.detach(), slope

    return valued
