"""Attacks, one file each, found by its name: from an observation and chance to a reconstruction.

Nothing here may import data sets, the federation or the metrics, so that an attack cannot see the truth.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import EllipsisType
from typing import Any, NamedTuple, TypeVar

import torch

from leakbench.attacks.adaptive import adapted
from leakbench.base.parts import SECTIONS, SEVERAL, part
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

Attack = Callable[[Observation, torch.Generator], Reconstruction]
Piece = tuple[slice | EllipsisType, Reconstruction]
_A = TypeVar("_A", bound=Callable[..., Reconstruction])


class Capabilities(NamedTuple):
    """How an attack may be run.

    rounds_at_once: the number of rounds that the attack is given at a time, because it treats every round on
    its own. None gives it all rounds.
    together: whether the rounds do not see each other in an attack that works on all of them. Other updates
    may then be attacked in the same run.
    """

    rounds_at_once: int | None = None
    together: bool = False


_CAPABILITIES: dict[Callable[..., Reconstruction], Capabilities] = {}


def capable(*, rounds_at_once: int | None = None, together: bool = False) -> Callable[[_A], _A]:
    """Return a decorator that notes what an attack is capable of, as in `Capabilities`."""

    def noted(attack: _A) -> _A:
        _CAPABILITIES[attack] = Capabilities(rounds_at_once, together)
        return attack

    return noted


def capabilities(name: str) -> Capabilities:
    """Return the capabilities of the attack with this name; one without the decorator has none."""
    return _CAPABILITIES.get(part("attacks", name), Capabilities())


def seen(observation: Observation, entry: Mapping[str, Any]) -> Observation:
    """Return `observation` with what the attack of a catalogue `entry` does about the defence."""
    return adapted(observation, bool(entry.get("adaptive")))


def composed(entry: Mapping[str, Any]) -> Attack:
    """Return an attack with the parts and parameters that its entry of the catalogue names."""
    sections: dict[str, object] = {}
    for section, room in SECTIONS.items():
        made = [part(room, name)(**values) for name, values in (entry.get(section) or {}).items()]
        if made:
            sections[section] = made if section in SEVERAL else made[0]
    return partial(part("attacks", entry["module"]), **sections, **entry.get("parameters", {}))


def pieces(entry: Mapping[str, Any], observation: Observation, rng: torch.Generator) -> Iterator[Piece]:
    """Run an attack and yield each reconstruction with its rounds, `...` where one is for all of them."""
    attack = composed(entry)
    size = capabilities(entry["module"]).rounds_at_once
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
    """Return the pieces of the attack on an observation and on the null one, in one run if `together`."""
    if capabilities(entry["module"]).together and not entry.get("epochs"):
        found: Reconstruction = composed(entry)(observation.beside(noise), rngs[0])
        split = slice(0, observation.rounds), slice(observation.rounds, None)
        own, null = ([(..., found.part(rounds))] for rounds in split)
        return iter(own), iter(null)
    return pieces(entry, observation, rngs[0]), pieces(entry, noise, rngs[1])


def run(entry: Mapping[str, Any], observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Run the attack of a catalogue `entry` on the whole of `observation` at once."""
    return composed(entry)(seen(observation, entry), rng)
