"""capture --from-flower: an observation of what a Flower server received."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.artefacts import Facts, open_tensors, write_tensors
from leakbench.attacks.observation import read_observation
from leakbench.errors import UserError
from leakbench.provenance import read_spec

_ROUND = re.compile(r"round-([0-9]+)\.safetensors")


def flower_capture(folder: Path, spec: Path, out: Path) -> None:
    """Write to `out` the observation of the rounds in `folder`, which `leakbench.flower.record` has kept.

    `spec` is JSON: `network` (the victim that the app trains, as docs/observation.md has it), and if they are
    known `local` (what clients do), `mode` (train or eval), `dropout` and `knows`. Clients that are not in
    every round are left out. Raises UserError if nothing is left, or if the updates do not fit the network.
    """
    given = read_spec(spec)
    if "network" not in given:
        raise UserError(f"{spec}: 'network' is missing (see docs/observation.md)")
    rounds = [open_tensors(path) for path in _rounds(folder)]
    counts = [_counts(facts, folder) for _, facts in rounds]
    nodes = sorted(set.intersection(*(set(each) for each in counts)))
    nodes = [node for node in nodes if len({each[node] for each in counts}) == 1]
    if not nodes:
        raise UserError(
            f"{folder}: no client answered in every round with as many samples (keep fewer rounds)"
        )
    tensors: dict[str, np.ndarray] = {"origin": np.arange(len(rounds))}
    names = [name.removeprefix("global/") for name in rounds[0][0] if name.startswith("global/")]
    if not names:
        raise UserError(
            f"{folder}: its rounds hold no models that were sent (record the strategy before it starts)"
        )
    for name in names:
        try:
            sent = np.stack([arrays[f"global/{name}"] for arrays, _ in rounds])
            back = np.stack(
                [np.stack([arrays[f"returned/{node}/{name}"] for node in nodes]) for arrays, _ in rounds]
            )
        except (KeyError, ValueError) as problem:
            raise UserError(f"{folder}: {name} is not in every reply, in one shape ({problem})") from problem
        tensors[f"global/{name}"] = sent
        if np.issubdtype(sent.dtype, np.floating):
            tensors[f"updates/{name}"] = (back - sent[:, None]).astype(np.float32)
    knows = {"shared": "model update of each client, each round", "source": "a Flower app"}
    facts: Facts = {
        "network": given["network"],
        "clients": [counts[0][node] for node in nodes],
        "kind": "model",
        "knows": knows | given.get("knows", {}),
        **{name: given[name] for name in ("local", "mode", "dropout") if name in given},
    }
    write_tensors(out, tensors, facts)
    try:
        read_observation(out)
    except UserError:
        out.unlink()
        raise


def _rounds(folder: Path) -> list[Path]:
    found = {
        int(match[1]): path
        for path in (folder.iterdir() if folder.is_dir() else [])
        if (match := _ROUND.fullmatch(path.name))
    }
    if not found:
        raise UserError(
            f"{folder}: no round-<number>.safetensors (see docs/observation.md: leakbench.flower.record)"
        )
    return [found[number] for number in sorted(found)]


def _counts(facts: Facts, folder: Path) -> dict[int, int]:
    """Return node → number of samples of one round."""
    nodes: Any = facts.get("nodes")
    clients: Any = facts.get("clients")
    whole = all(
        isinstance(values, list) and all(type(value) is int for value in values)
        for values in (nodes, clients)
    )
    if not whole or len(nodes) != len(clients):
        raise UserError(f"{folder}: nodes and clients of a round are not two lists of whole numbers")
    return dict(zip(nodes, clients, strict=True))
