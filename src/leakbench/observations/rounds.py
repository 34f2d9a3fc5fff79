"""The reader of the rounds that `flower.record` kept; it takes a stranger's files as data only."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leakbench.base.artefacts import Facts, open_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.base.whole import whole

_ROUND = re.compile(r"round-([0-9]+)\.safetensors")
_TOLD, _LONGEST = 3, 250


@dataclass(frozen=True)
class Rounds:
    """What a server sent and received in several rounds of the same clients."""

    sent: dict[str, np.ndarray]  # parameter or buffer → [rounds, *shape], the models that were sent out
    # Floating parameter or buffer → [rounds, clients, *shape], the returned values minus those sent.
    updates: dict[str, np.ndarray]
    nodes: list[int]  # the number of each client's node
    clients: list[int]  # the number of samples of each client
    left_out: dict[int, str]  # node → why it is none of the clients, in words
    config: Facts  # the settings of training that the server sent in the last round


def read_rounds(folder: Path) -> Rounds:
    """Return the rounds in `folder`, with the clients that answered in each with equally many samples."""
    found = _files(folder)
    rounds = {number: _opened(path) for number, path in found.items()}
    facts = {number: _checked(each, found[number]) for number, (_, each) in rounds.items()}
    left_out = _left_out(facts)
    first = next(iter(facts.values()))["samples"]
    nodes = sorted(first.keys() - left_out)
    if not nodes:
        why = "; ".join(list(left_out.values())[:_TOLD]) or "no client was asked"
        raise UserError(
            f"{folder}: no client answered in each of {len(facts)} rounds with as many samples: {why} "
            "(remove the files of those rounds, or record again)"
        )
    tensors = [arrays for arrays, _ in rounds.values()]
    names = [name.removeprefix("global/") for name in tensors[0] if name.startswith("global/")]
    if not names:
        raise UserError(f"{folder}: its rounds hold no models (record the strategy before it starts)")
    sent, updates = {}, {}
    for name in names:
        try:
            back = np.stack(
                [np.stack([each[f"returned/{node}/{name}"] for node in nodes]) for each in tensors]
            )
            # A strategy may compute in another precision, but clients train in their own.
            sent[name] = np.stack([arrays[f"global/{name}"] for arrays in tensors]).astype(back.dtype)
            if np.issubdtype(sent[name].dtype, np.floating):
                updates[name] = back - sent[name][:, None]
                _raise_unless_finite(name, sent[name], updates[name], list(found.values()), nodes)
        except (KeyError, ValueError) as problem:
            raise UserError(
                f"{folder}: {name} is not in every round and reply, in one shape (train one model: {problem})"
            ) from problem
    config = list(facts.values())[-1].get("config", {})
    return Rounds(sent, updates, nodes, [first[node] for node in nodes], left_out, config)


def _files(folder: Path) -> dict[int, Path]:
    """Return number → file of the rounds in a folder, in order."""
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if match := _ROUND.fullmatch(path.name):
            number = int(match[1])
            if number in found:
                raise UserError(f"{path}: is round {number}, as is {found[number].name} (remove one of them)")
            found[number] = path
    if not found:
        raise UserError(f"{folder}: no round-<number>.safetensors (see docs/flower.md: leakbench.record)")
    return dict(sorted(found.items()))


def _opened(path: Path) -> tuple[dict[str, np.ndarray], Facts]:
    """Return the tensors and facts of a round. Raises Altered if its bytes are not as they were written."""
    try:
        whole(path)
        return open_tensors(path)
    except Altered as problem:
        raise Altered(path, problem.what, "copy the file again, or record again") from problem


def _raise_unless_finite(
    name: str, sent: np.ndarray, updates: np.ndarray, files: list[Path], nodes: list[int]
) -> None:
    for path, each, back in zip(files, sent, updates, strict=True):
        keys = [f"global/{name}", *(f"returned/{node}/{name}" for node in nodes)]
        for key, value in zip(keys, [each, *back], strict=True):
            if not np.isfinite(value).all():
                raise UserError(f"{path}: {key} holds NaN or Inf (was the training stable?)")


def _left_out(rounds: dict[int, Facts]) -> dict[int, str]:
    """Return node → the first reason why it is not one of the clients in every round."""
    nodes = {
        node for each in rounds.values() for kind in ("samples", "asked", "failed") for node in each[kind]
    }
    out = {}
    for node in sorted(nodes):
        counts = {each["samples"][node] for each in rounds.values() if node in each["samples"]}
        absent = [number for number, each in rounds.items() if node not in each["samples"]]
        if absent:
            out[node] = f"the client of node {node} {_absence(rounds[absent[0]], node)} in round {absent[0]}"
        elif len(counts) > 1:
            seen = " and ".join(map(str, sorted(counts)))
            out[node] = f"the client of node {node} had {seen} samples in different rounds"
    return out


def _absence(facts: Facts, node: int) -> str:
    """Return what a client did in a round in which it sent nothing that could be kept."""
    if node in facts["failed"]:
        return f"failed ({facts['failed'][node]})"
    return "was asked and did not answer" if node in facts["asked"] else "was not asked"


def _checked(facts: Facts, path: Path) -> Facts:
    """Return the facts of a round with its nodes as numbers. Raises UserError for facts of another form."""
    nodes, clients, asked = (facts.get(name, []) for name in ("nodes", "clients", "asked"))
    failed, config = (facts.get(name, {}) for name in ("failed", "config"))
    for name, value in (("nodes", nodes), ("clients", clients), ("asked", asked)):
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            raise UserError(f"{path}: {name} is no list of whole numbers (record again)")
    if len(nodes) != len(clients) or len(set(nodes)) != len(nodes):
        raise UserError(f"{path}: nodes and clients are not of one length, each node once (record again)")
    if odd := [count for count in clients if count < 1]:
        raise UserError(f"{path}: clients: {odd[0]} is no number of samples, at least 1 (record again)")
    if not all(isinstance(each, dict) for each in (failed, config)) or not all(
        re.fullmatch("-?[0-9]{1,20}", node) and isinstance(why, str) for node, why in failed.items()
    ):
        raise UserError(f"{path}: failed and config are not mappings of words (record again)")
    said = {int(node): repr(why[:_LONGEST]) for node, why in failed.items()}
    return {
        "samples": dict(zip(nodes, clients, strict=True)),
        "asked": asked,
        "failed": said,
        "config": config,
    }
