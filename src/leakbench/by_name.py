"""Attacks by their name, on an observation at hand, and what names there are."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from leakbench import attacks
from leakbench.attacks.observation import Observation, read_observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.catalogue.blame import odd
from leakbench.catalogue.home import home
from leakbench.catalogue.load import find, load_kind, merge, validate
from leakbench.errors import UserError
from leakbench.metrics import METRICS
from leakbench.seeds import stream
from leakbench.yamls import suggest

KINDS = ("attacks", "defences", "victims")


def known(kind: str) -> dict[str, str]:
    """Return name → summary of all that leakbench has of a kind.

    kind: `attacks`, `defences`, `victims` or `metrics`.

    Raises UserError for another kind.
    """
    if kind == "metrics":
        better = {True: "higher", False: "lower"}
        return {
            name: f"{m.convention}; of {m.of}; {better[m.higher_is_better]} is better"
            for name, m in sorted(METRICS.items())
        }
    if kind not in KINDS:
        raise UserError(f"known: there is no kind '{kind}' ({suggest(kind, [*KINDS, 'metrics'])})")
    return {name: entry.summary for name, entry in sorted(load_kind(home(), kind).items())}


def attack(
    name: str,
    observation: Observation | Path | str,
    changes: Mapping[str, Any] | None = None,
    *,
    labels: Path | str | None = None,
    generator: Path | str | None = None,
    seed: int = 0,
) -> Reconstruction:
    """Run an attack of the catalogue on what a server saw, in this process.

    name: one of `known("attacks")`, such as `fidel`, `peel` or `invg`.
    observation: the path of an observation file (docs/observation.md), or an `Observation`.
    changes: keys of the attack's YAML to change (config/README.md), such as
    `{"parameters": {"iterations": 500}}`.
    labels: for an attack that is given labels, a file with `labels/<client>`, int64 [rounds, samples].
    generator: for an attack that uses one, the file of a trained generator.
    seed: of the attack's own chance, a whole number of at least 0. The same seed gives the same result.

    Returns a `Reconstruction`: `images`, float32 [rounds, clients, candidates, channels, rows, columns] in
    [0, 1], and `usable`, bool [rounds, clients, candidates]. Optimisations also fill `labels`, int64 of the
    shape of `usable`, and `gap`, the squared difference of the gradients [rounds, clients]. Nothing seals the
    attack off from this process, as `leakbench attack` does.

    Raises UserError for an unknown name, a wrong change, or a file that is malformed; its subclass Unfit if
    the attack cannot work on this observation.
    """
    where = f"attack '{name}'"
    entry = find(home(), "attacks", name, "attack").model_dump(mode="json")
    if changes:
        if what := odd(changes):
            raise UserError(f"{where}: {what}")
        entry = validate("attacks", "", where, merge(entry, dict(changes))).model_dump(mode="json")
    if isinstance(observation, Observation):
        seen = replace(observation, labelling=entry["labels"])
    else:
        needs = {"labels": entry["labels"] == "oracle", "generator": bool(entry["generator"])}
        for what, file in (("labels", labels), ("generator", generator)):
            if needs[what] and file is None:
                raise UserError(f"{where}: needs {what} (give the file, or take an attack without)")
        own, given = (None if file is None else Path(file) for file in (generator, labels))
        seen, _ = read_observation(Path(observation), own, given, entry["labels"])
    return attacks.run(entry, seen, torch.Generator().manual_seed(stream("attack", name, seed)))
