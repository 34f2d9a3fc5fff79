"""Adaptive attackers: what one who knows a defence does about it; a file for each, found by the defence's
name."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from leakbench.parts import dotted, part
from leakbench.tensors import Tensors

if TYPE_CHECKING:
    # The attacks import this room.
    from leakbench.attacks.observation import Observation

# Gradients [trials, *shape] that dummies would cause in, what the client would have sent of them out.
Mechanism = Callable[[Tensors], Tensors]


class Adaptation(NamedTuple):
    """Where an attacker who knows the defence may act; each defaults to what an attacker does who knows none.

    `pooled(updates)`: the best estimate [*shape] of one undefended update from several [rounds, *shape] of
    it, each defended anew. `mechanism(observed)`: the defence, with what it was set to read off the observed
    gradients, as a differentiable function of dummy gradients. `lock`: what to take a client's lock for
    (`matching.lock`).
    """

    pooled: Callable[[Tensor], Tensor] | None = None
    mechanism: Callable[[Tensors], Mechanism] | None = None
    lock: Literal["guessed", "sought"] = "guessed"


def adaptation(observation: "Observation") -> Adaptation:
    """Return how to adapt to the defence that is known; by default nothing, where the room has no file for
    it."""
    name = observation.knows.get("defence", "none")
    if find_spec(dotted("adaptive", name)) is None:
        return Adaptation()
    found: Adaptation = part("adaptive", name)()
    return found


def adapted(observation: "Observation") -> "Observation":
    """Return the observation as an adaptive attacker takes it: with its adaptation, and rounds pooled.

    Rounds become one, whose updates are what all of them together say, only where all come from one model
    and, as the server knows, the same samples, so that rounds differ in chance alone.
    """
    known = adaptation(observation)
    observation = replace(observation, adaptation=known)
    again = observation.knows.get("local set") == "the same every round"
    if known.pooled is None or not again or len(set(observation.origin.tolist())) != 1:
        return observation
    updates: dict[str, Any] = {}
    for name in observation.updates:
        seen = observation.update(name)
        updates[name] = torch.stack([known.pooled(each) for each in seen.unbind(1)])[None].numpy()
    return replace(observation.part(slice(1)), updates=updates)
