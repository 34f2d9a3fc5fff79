"""Attacks: observation and chance in, reconstruction out; one file each, found by its name.

Nothing here may import data sets, the federation or the metrics: an attack cannot see the truth.
"""

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import torch

from leakbench.adaptive import pooled
from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.parts import part

Piece = tuple[slice | EllipsisType, Reconstruction]


def seen(observation: Observation, parameters: dict[str, Any]) -> Observation:
    """Return what an attack is given: if it `adapts`, rounds that repeat one local set as one
    (`adaptive.pooled`)."""
    return pooled(observation) if parameters.get("adapts") else observation


def pieces(
    module: str, observation: Observation, rng: torch.Generator, parameters: dict[str, Any]
) -> Iterator[Piece]:
    """Run the attack whose file is `module`; all its chance comes from `rng`. Yield what it finds, with its
    rounds.

    An attack for which every round stands alone says so by an attribute `rounds_at_once`, and is run on so
    many; each of its tensors has the rounds first. Any other sees the whole observation (`...`) and yields
    one reconstruction.
    """
    attack = part("attacks", module)
    size = getattr(attack, "rounds_at_once", None)
    if size is None:
        yield ..., attack(observation, rng, **parameters)
        return
    for start in range(0, observation.rounds, size):
        rounds = slice(start, min(start + size, observation.rounds))
        yield rounds, attack(observation.part(rounds), rng, **parameters)


def with_null(
    module: str,
    observation: Observation,
    noise: Observation,
    rngs: tuple[torch.Generator, torch.Generator],
    parameters: dict[str, Any],
) -> tuple[Iterator[Piece], Iterator[Piece]]:
    """Return the pieces of the attack on an observation and on the null one, each with its own chance.

    An attack whose rounds do not see each other, though it works on many at once, says so by an attribute
    `together`: both are then one work, with the first's chance.
    """
    attack = part("attacks", module)
    if getattr(attack, "together", False):
        found: Reconstruction = attack(observation.beside(noise), rngs[0], **parameters)
        split = slice(0, observation.rounds), slice(observation.rounds, None)
        own, null = ([(..., found.part(rounds))] for rounds in split)
        return iter(own), iter(null)
    return pieces(module, observation, rngs[0], parameters), pieces(module, noise, rngs[1], parameters)


def run(
    module: str, observation: Observation, rng: torch.Generator, parameters: dict[str, Any]
) -> Reconstruction:
    """Run the attack whose file is `module` on the whole of `observation` at once."""
    found: Reconstruction = part("attacks", module)(seen(observation, parameters), rng, **parameters)
    return found
