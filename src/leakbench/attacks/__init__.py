"""Attacks: observation and chance in, reconstruction out; one file each, found by its name.

Nothing here may import data sets, the federation or the metrics: an attack cannot see the truth.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import EllipsisType
from typing import Any

import torch

from leakbench.adaptive import adapted
from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.parts import SECTIONS, SEVERAL, part

Attack = Callable[[Observation, torch.Generator], Reconstruction]
Piece = tuple[slice | EllipsisType, Reconstruction]


def seen(observation: Observation, entry: Mapping[str, Any]) -> Observation:
    """Return what an attack is given: with what it does about the defence, if it is `adaptive` or must."""
    return adapted(observation, bool(entry.get("adaptive")))


def composed(entry: Mapping[str, Any]) -> Attack:
    """Return an attack with the parts and parameters that its entry of the catalogue names.

    entry: `module`, `parameters`, and for each section that the attack takes a mapping part → keyword
    arguments.
    """
    sections: dict[str, Any] = {}
    for section, room in SECTIONS.items():
        made = [part(room, name)(**values) for name, values in (entry.get(section) or {}).items()]
        if made:
            sections[section] = made if section in SEVERAL else made[0]
    return partial(part("attacks", entry["module"]), **sections, **entry.get("parameters", {}))


def pieces(entry: Mapping[str, Any], observation: Observation, rng: torch.Generator) -> Iterator[Piece]:
    """Run an attack; all its chance comes from `rng`. Yield what it finds, with its rounds.

    An attack for which every round stands alone has an attribute `rounds_at_once`, and is run on that many
    rounds at a time; each of its tensors has the rounds first. Any other sees the whole observation (`...`)
    and yields one reconstruction.
    """
    attack = composed(entry)
    size = getattr(part("attacks", entry["module"]), "rounds_at_once", None)
    if size is None:
        yield ..., attack(observation, rng)
        return
    for start in range(0, observation.rounds, size):
        rounds = slice(start, min(start + size, observation.rounds))
        yield rounds, attack(observation.part(rounds), rng)


def with_null(
    entry: Mapping[str, Any],
    observation: Observation,
    noise: Observation,
    rngs: tuple[torch.Generator, torch.Generator],
) -> tuple[Iterator[Piece], Iterator[Piece]]:
    """Return the pieces of the attack on an observation and on the null one, each with its own chance.

    An attack whose rounds do not see each other, though it works on many at once, has an attribute
    `together`: both are then one work, with the first's chance. Epochs that are attacked together do see each
    other.
    """
    if getattr(part("attacks", entry["module"]), "together", False) and not entry.get("epochs"):
        found: Reconstruction = composed(entry)(observation.beside(noise), rngs[0])
        split = slice(0, observation.rounds), slice(observation.rounds, None)
        own, null = ([(..., found.part(rounds))] for rounds in split)
        return iter(own), iter(null)
    return pieces(entry, observation, rngs[0]), pieces(entry, noise, rngs[1])


def run(entry: Mapping[str, Any], observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Run an attack on the whole of `observation` at once."""
    return composed(entry)(seen(observation, entry), rng)
