"""Attacks, one file each, found by its name: from an observation and chance to a reconstruction.

Nothing here may import data sets, the federation or the metrics, so that an attack cannot see the truth.
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
    """Return `observation` with what the attack of a catalogue `entry` does about the defence.

    An attack that is `adaptive` adapts to the defence. Any other attack acts as the defence itself requires,
    if it requires anything (`adaptive.adaptation`).
    """
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
    """Run an attack and yield each reconstruction together with its rounds.

    An attack that treats every round on its own has an attribute `rounds_at_once`. It runs on that many
    rounds at a time, and each of its tensors begins with the rounds. Any other attack sees the whole
    observation and yields one reconstruction, for all rounds (`...`).

    entry: the attack's entry of the catalogue, as for `composed`.
    observation: what the attack sees.
    rng: the source of all chance in the attack.
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
    """Return the pieces of the attack on an observation, and those on the null observation.

    An attack that works on many rounds at once may have an attribute `together`, which says that its rounds
    do not see each other. Both observations are then attacked in one run, with the first generator. With the
    section `epochs` the rounds do see each other, and the runs are separate.

    entry: the attack's entry of the catalogue, as for `composed`.
    observation: what the attack sees.
    noise: the null observation (`Observation.randomised`).
    rngs: the generators of the run on `observation` and of the run on `noise`.
    """
    if getattr(part("attacks", entry["module"]), "together", False) and not entry.get("epochs"):
        found: Reconstruction = composed(entry)(observation.beside(noise), rngs[0])
        split = slice(0, observation.rounds), slice(observation.rounds, None)
        own, null = ([(..., found.part(rounds))] for rounds in split)
        return iter(own), iter(null)
    return pieces(entry, observation, rngs[0]), pieces(entry, noise, rngs[1])


def run(entry: Mapping[str, Any], observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Run the attack of a catalogue `entry` on the whole of `observation` at once."""
    return composed(entry)(seen(observation, entry), rng)
