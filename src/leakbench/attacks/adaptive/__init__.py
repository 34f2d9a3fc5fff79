"""Adaptive attackers: what an attacker who knows a defence does about it, in a file of the defence's name."""

from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import torch

from leakbench.base.parts import dotted, stem
from leakbench.observations.adaptation import Adaptation
from leakbench.observations.observation import Observation


def adaptation(observation: Observation, adaptive: bool = True) -> Adaptation:
    """Return how to adapt to the defence that is known, by the function of its name in its file.

    A victim that defends itself has a file of its own name, used where no defence has one. An attacker who
    does not adapt uses the file's function `unadapted`, which only a defence has that every attack must take
    into account. By default nothing is done.
    """
    names = (observation.knows.defence or "none", observation.network.get("module", "none"))
    name = next((each for each in names if find_spec(dotted("adaptive", each)) is not None), None)
    if name is None:
        return Adaptation()
    room = import_module(dotted("adaptive", name))
    return getattr(room, stem(name) if adaptive else "unadapted", Adaptation)()


def adapted(observation: Observation, adaptive: bool = True) -> Observation:
    """Return the observation as an attacker takes it: with the adaptation to the defence, and rounds pooled.

    Rounds are pooled into one, the best estimate from all of them, if all start from one model and the server
    knows that clients hold the same samples in every round.
    """
    observation = replace(observation, adaptation=adaptation(observation, adaptive))
    pooled, again = observation.adaptation.pooled, observation.knows.local_set_repeats
    if pooled is None or not again or len(set(observation.origin.tolist())) != 1:
        return observation
    updates = {
        name: torch.stack([pooled(each) for each in observation.update(name).unbind(1)])[None].numpy()
        for name in observation.updates
    }
    return replace(observation.part(slice(1)), updates=updates)
