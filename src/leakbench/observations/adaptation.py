"""What an attacker who knows a defence does about it, as the attacks take it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors

# From the gradients [trials, *shape] that dummies would cause, and the dummies, to what the client would have
# sent.
Mechanism = Callable[[Tensors, Tensors], Tensors]


def by_parameter(change: Callable[[str, Tensor], Tensor]) -> Mechanism:
    """Return the mechanism that changes each gradient [trials, *shape] by itself, given its name."""
    return lambda found, dummies: {name: change(name, value) for name, value in found.items()}


@dataclass(frozen=True)
class Nuisance:
    """What a defence leaves unknown in a group's trials, beside images and labels; by default nothing.

    start: further unknowns of the optimiser, name → [trials, …].
    dummies: a function from the unknowns and the numbers `rows` [n] of trials to what the unknowns stand for,
    name → [n, …]; by default the unknowns themselves. A parameter of the victim that clients hide enters the
    model; anything else is only for the mechanism.
    beside: the names of observed tensors that belong to no parameter of the victim.
    gradients: a function from `rows`, the dummies and the loss's slopes [n, *shape] at the hidden parameters
    to what the tensors `beside` would be.
    """

    start: Tensors = field(default_factory=dict)
    dummies: Callable[[Tensors, Tensor], Tensors] = lambda unknowns, rows: unknowns
    beside: tuple[str, ...] = ()
    gradients: Callable[[Tensor, Tensors, Tensors], Tensors] = lambda rows, dummies, slopes: {}


def nothing(observation: Any, client: int, rounds: Tensor, rng: torch.Generator) -> Nuisance:
    """Return no further unknowns. Raises Unfit where clients hide parameters."""
    if observation.hidden:
        raise Unfit(
            "attack: clients hide parameters, and nothing says what an attack takes them for (write a file "
            "with the defence's name in src/leakbench/attacks/adaptive)"
        )
    return Nuisance()


class Adaptation(NamedTuple):
    """What an attacker who knows the defence does about it; by default nothing.

    pooled: a function from several updates [rounds, *shape], each of them the same update defended anew, to
    the best estimate [*shape] of the undefended update.
    mechanism: a function from the observed gradients to the defence, with settings read off them, as a
    differentiable function of dummy gradients and dummies.
    nuisance: a function from the observation, a client, rounds [trials] and a generator to what else is
    unknown in trials of this client's updates.
    alternatives: a function from images [n, …] to all that a client may have trained on in their place, one
    after the other, each of the same shape.
    """

    pooled: Callable[[Tensor], Tensor] | None = None
    mechanism: Callable[[Tensors], Mechanism] | None = None
    nuisance: Callable[[Any, int, Tensor, torch.Generator], Nuisance] = nothing
    alternatives: Callable[[Tensor], Iterator[Tensor]] | None = None
