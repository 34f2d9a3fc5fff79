"""Adaptive attackers: what one who knows a defence does about it; a file for each, found by the name of the
defence, or of the victim that is one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from leakbench.errors import Unfit
from leakbench.parts import dotted, stem
from leakbench.tensors import Tensors

if TYPE_CHECKING:
    # The attacks import this room.
    from leakbench.attacks.observation import Observation

# Gradients [trials, *shape] that dummies would cause, and the dummies, in; what the client would have sent of
# them, out.
Mechanism = Callable[[Tensors, Tensors], Tensors]


@dataclass(frozen=True)
class Nuisance:
    """What a defence leaves unknown of a group's trials, beside images and labels; each defaults to nothing.

    `start`: further unknowns of the optimiser, name → [trials, …]. `dummies(unknowns, rows)`: what these
    stand for in the trials `rows` [n], name → [n, …], by default themselves: a parameter of the victim that
    clients hide enters the model, anything else the mechanism alone. `beside`: the tensors that were observed
    though they belong to no parameter of the victim. `gradients(rows, dummies, slopes)`: what they would be,
    of the loss's `slopes` [n, *shape] at the hidden parameters.
    """

    start: Tensors = field(default_factory=dict)
    dummies: Callable[[Tensors, Tensor], Tensors] = lambda unknowns, rows: unknowns
    beside: tuple[str, ...] = ()
    gradients: Callable[[Tensor, Tensors, Tensors], Tensors] = lambda rows, dummies, slopes: {}


def nothing(observation: "Observation", client: int, rounds: Tensor, rng: torch.Generator) -> Nuisance:
    """Return no further unknowns. Raises Unfit where clients hide parameters."""
    if observation.hidden:
        raise Unfit(
            "attack: clients hide parameters, and nothing says what an attack takes them for (write a file "
            "with the defence's name in src/leakbench/adaptive)"
        )
    return Nuisance()


class Adaptation(NamedTuple):
    """Where an attacker who knows the defence may act; each defaults to what an attacker does who knows none.

    `pooled(updates)`: the best estimate [*shape] of one undefended update from several [rounds, *shape] of
    it, each defended anew. `mechanism(observed)`: the defence, with what it was set to read off the observed
    gradients, as a differentiable function of dummy gradients and of the dummies. `nuisance(observation,
    client, rounds, rng)`: what else is unknown in trials of a client's updates of `rounds` [trials].
    `alternatives(images)`: all that a client may have trained on in place of images [n, …], of the same
    shape, one after the other.
    """

    pooled: Callable[[Tensor], Tensor] | None = None
    mechanism: Callable[[Tensors], Mechanism] | None = None
    nuisance: Callable[["Observation", int, Tensor, torch.Generator], Nuisance] = nothing
    alternatives: Callable[[Tensor], Iterator[Tensor]] | None = None


def adaptation(observation: "Observation", adaptive: bool = True) -> Adaptation:
    """Return how to adapt to the defence that is known, by the function of its own name in its file.

    A victim that defends itself has a file of its own name, which is taken where no defence has one. An
    attacker who does not adapt acts by the function `unadapted` of that file, which stands only where an
    attack needs it. By default nothing is done.
    """
    names = (observation.knows.defence or "none", observation.network.get("module", "none"))
    name = next((each for each in names if find_spec(dotted("adaptive", each)) is not None), None)
    if name is None:
        return Adaptation()
    room = import_module(dotted("adaptive", name))
    found: Adaptation = getattr(room, stem(name) if adaptive else "unadapted", Adaptation)()
    return found


def adapted(observation: "Observation", adaptive: bool = True) -> "Observation":
    """Return the observation as an attacker takes it: with its adaptation, and rounds pooled.

    Rounds become one, whose updates are what all of them together say, only where all come from one model
    and, as the server knows, the same samples, so that rounds differ in chance alone.
    """
    known = adaptation(observation, adaptive)
    observation = replace(observation, adaptation=known)
    again = observation.knows.local_set_repeats
    if known.pooled is None or not again or len(set(observation.origin.tolist())) != 1:
        return observation
    updates: dict[str, Any] = {}
    for name in observation.updates:
        seen = observation.update(name)
        updates[name] = torch.stack([known.pooled(each) for each in seen.unbind(1)])[None].numpy()
    return replace(observation.part(slice(1)), updates=updates)
