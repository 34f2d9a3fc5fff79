"""Files that nobody wrote on purpose: real ones of each kind, changed by random bytes, and what a reader may
make of them.

Shared by the test (hypothesis) and the nightly run (atheris).
"""

import json
import pickle
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import specs
import torch
from PIL import Image

from leakbench.audit.audit import of_recorded
from leakbench.audit.recorded import Options
from leakbench.base.artefacts import (
    read_facts,
    read_table,
    read_tensors,
    to_json,
    write_table,
    write_tensors,
    write_text,
)
from leakbench.base.errors import UserError
from leakbench.base.provenance import read_spec
from leakbench.base.whole import file_digest
from leakbench.catalogue.spec import spec_of
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.idx import read_idx
from leakbench.datasets.pictures import opened
from leakbench.datasets.records import records
from leakbench.datasets.unpickle import read_pickle
from leakbench.jobs.attack import attack
from leakbench.networks import generators, victims
from leakbench.observations.reading import read_observation
from leakbench.papers.reference import tables

SHAPE, CLASSES = (8, 8, 1), 4
FACTS = {
    "network": {"module": "resnet", "parameters": {"depth": 18, "width": 4}, "shape": list(SHAPE),
    "classes": CLASSES}, "clients": [1, 2],
    "kind": "model",
    "local": {"lr": 0.1, "batch_size": None, "epochs": 1},
    "knows": {"defence": "none"},
}  # fmt: skip
# Values that have broken readers before, as JSON.
EVIL = [
    "null", "true", "[]", "{}", '""', "-1", "0", "1e999", "NaN", "1e308", "99999999999999999999",
    "4294967296", '"../../x"',
    '"/etc/passwd"', '"__class__"', '"os"', "[[[[]]]]", '{"../../x": 1}', "[100000]", "0.5", '"\\u0000"',
    '"model"',
]  # fmt: skip


def _network(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    network = FACTS["network"] | {"module": "fcnn", "parameters": {}}
    model = victims.build("fcnn", SHAPE, CLASSES, {})
    return {name: value.numpy() for name, value in model.state_dict().items()}, network


def observation(path: Path) -> None:
    """Write a sound observation of a small network: two rounds, two clients."""
    weights, network = _network(path.parent)
    tensors = {f"global/{name}": value[None] for name, value in weights.items()}
    tensors |= {
        f"updates/{name}": np.zeros((2, 2, *value.shape), np.float32) for name, value in weights.items()
    }
    write_tensors(path, tensors | {"origin": np.zeros(2, np.int64)}, FACTS | {"network": network})


def generator(path: Path) -> None:
    """Write a sound generator of the observation's images."""
    parameters = {"latent": 3, "width": 2, "reach": 2.0, "noise": 0.1}
    made = generators.build("cvae", (CLASSES,), SHAPE, parameters)
    facts = {"module": "cvae", "features": [CLASSES], "parameters": parameters}
    write_tensors(path, {name: value.numpy() for name, value in made.state_dict().items()}, facts)


def labels(path: Path) -> None:
    write_tensors(path, {"labels/0": np.zeros((2, 1), np.int64), "labels/1": np.ones((2, 2), np.int64)}, {})


def table(path: Path) -> None:
    write_table(path, pd.DataFrame({"n": [1, 2], "s": ["a", None], "x": [0.5, np.nan]}), FACTS)


def _spec_of(kind: str) -> tuple[str, Callable[[Path], None], Callable[[Path], Any]]:
    """Return the kind of the specs of one kind of job."""
    return (
        ".json",
        lambda path: write_text(path, to_json(specs.SPECS[kind])),
        lambda path: spec_of(specs.verb_of(kind), read_spec(path), str(path)),
    )


def record(path: Path) -> None:
    """Write a sound record of the table `kept.csv`, which lies where mutants of the record do."""
    made = dict.fromkeys(("device", "commit", "date", "specs"), "x") | {"versions": {}, "absent": {}}
    csv = path.parents[1] / "kept.csv"
    csv.write_text("metric,baseline,mean,seeds\nmse,,1.0,0\n")
    falls = {"shares": {"a": {"victim": 0.5}}, "falls": {"a": [0.5]}, "partners": "drawn"}
    write_text(path, to_json(made | falls | {"files": {".csv": file_digest(csv)}}))


def _recorded(path: Path) -> None:
    # Other mutants lie beside this one, and a record lists what lies beside it.
    (kept,) = tables([path.rename(path.with_name("kept.json")).with_suffix(".csv")])
    kept.said()


SPEC = {
    "attack": {"module": "fidel", "parameters": {}}, "attack_name": "fidel", "null_rounds": 2, "seed": 0,
}  # fmt: skip


def _observed(path: Path) -> None:
    """Read an observation, and attack what the reader accepts."""
    torch.manual_seed(0)
    read_observation(path)
    out = path.parent / "guesses.safetensors"
    attack(path, spec_of("attack", SPEC, "spec.json"), out, None, None, None, path.parent / "scratch")
    read_tensors(out)


def _audited(path: Path) -> None:
    of_recorded(path, Options(60.0, {}), lambda _: None)


def _labelled(path: Path) -> None:
    sound = path.parent / "sound.safetensors"
    if not sound.exists():
        observation(sound)
    read_observation(sound, labels=path, labelling="oracle")


def _generator(path: Path) -> None:
    sound = path.parent / "sound.safetensors"
    if not sound.exists():
        observation(sound)
    read_observation(sound, generator=path)


def _table(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_table(path)
    read_facts(path)


def idx(path: Path) -> None:
    path.write_bytes(struct.pack(">HBB3I", 0, 8, 3, 2, 3, 4) + bytes(24))


def picture(path: Path) -> None:
    Image.new("RGB", (5, 4), (1, 2, 3)).save(path)


def batch(path: Path) -> None:
    path.write_bytes(pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [3]}, protocol=2))


def people(path: Path) -> None:
    path.write_text("39, State-gov, 0.3, no\n17, ?, 0, yes\n\n|a comment\n90, State-gov, 1, no\n")


def _people(path: Path) -> None:
    columns: list[dict[str, list[float | str]]] = [
        {"age": [17, 90, 1]}, {"work": ["State-gov", "?"]}, {"rate": [0, 1, 0.1]}
    ]  # fmt: skip
    records(path.parent, columns=columns, classes=[["no"], ["yes"]], files={"train": path.name})


def _of_a_data_set(read: Callable[[Path], Any]) -> Callable[[Path], None]:
    """Return a reader of data sets whose refusals are those of `fetch`."""

    def refuse(path: Path) -> None:
        try:
            read(path)
        except Damaged as damage:
            raise UserError(str(damage)) from damage

    return refuse


# Kind → (suffix, what writes a sound one, what reads it).
KINDS: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any]]] = {
    "observation": (".safetensors", observation, _observed),
    "audited": (".safetensors", observation, _audited),
    "tensors": (".safetensors", observation, read_tensors),
    "labels": (".safetensors", labels, _labelled),
    "generator": (".safetensors", generator, _generator),
    "table": (".parquet", table, _table),
    **{f"{kind} spec": _spec_of(kind) for kind in specs.SPECS},
    "record": (".json", record, _recorded),
    "idx": (".idx", idx, _of_a_data_set(read_idx)),
    "picture": (".png", picture, _of_a_data_set(opened)),
    "people": (".data", people, _of_a_data_set(_people)),
    "batch": (".pickle", batch, _of_a_data_set(read_pickle)),
}


def seeds(folder: Path) -> dict[str, bytes]:
    """Return a sound file of each kind, without a digest, by which every change would be refused."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for kind, (suffix, write, _) in KINDS.items():
        path = folder / f"seed{suffix}"
        write(path)
        found[kind] = path.read_bytes().replace(b"leakbench-sha256", b"leakbench-sealed")
        path.unlink()
    return found


class Bytes:
    """Random choices from bytes: numbers until they run out, then zeros."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def number(self, below: int) -> int:
        """Return a number in [0, below)."""
        size = 1 if below <= 256 else 4
        part = self.data[self.place : self.place + size].ljust(size, b"\0")
        self.place += size
        return int.from_bytes(part, "little") % max(1, below)

    def rest(self) -> bytes:
        return self.data[self.place :]


def mutant(choices: Bytes, sound: bytes) -> bytes:
    """Return a changed file: its bytes, the JSON within it, its length, or something else altogether."""
    how = choices.number(8)
    if how == 0:
        return choices.rest()
    out = bytearray(sound)
    if how <= 3 and len(sound) > 8 and sound[8:9] == b"{":
        length = struct.unpack("<Q", sound[:8])[0]
        header = _json(choices, sound[8 : 8 + length].decode())
        return struct.pack("<Q", len(header)) + header + sound[8 + length :]
    if how <= 3 and sound[:1] == b"{":
        return _json(choices, sound.decode())
    for _ in range(1 + choices.number(6)):
        out[choices.number(len(out))] = choices.number(256)
    return bytes(out[: choices.number(len(out))] if how == 7 else out)


def _json(choices: Bytes, text: str) -> bytes:
    """Return JSON text with values put in the place of others, in the facts within it too."""
    value = json.loads(text)
    inner = value.get("__metadata__", {}).get("leakbench")
    if inner is not None and choices.number(4):
        value["__metadata__"]["leakbench"] = _json(choices, inner).decode()
        return json.dumps(value).encode()
    marks = {}
    for number in range(1 + choices.number(3)):
        _put(value, choices, f"@{number}@")
        marks[f'"@{number}@"'] = EVIL[choices.number(len(EVIL))]
    out = json.dumps(value)
    for mark, evil in marks.items():
        out = out.replace(mark, evil)
    return out.encode()


def _put(value: Any, choices: Bytes, mark: str) -> None:
    """Put `mark` somewhere into a mapping or list, in place."""
    while True:
        places = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not places:
            return
        place = places[choices.number(len(places))]
        if isinstance(value[place], dict | list) and value[place] and choices.number(4):
            value = value[place]
            continue
        if isinstance(value, dict) and choices.number(5) == 0:
            value[f"../../{place}"] = value.pop(place)
        else:
            value[place] = mark
        return


def read(kind: str, data: bytes, folder: Path) -> str:
    """Read a mutant; return the refusal, or "" for a value. Whatever else is raised is a reader's fault."""
    suffix, _, reader = KINDS[kind]
    path = folder / f"mutant{suffix}"
    path.write_bytes(data)
    try:
        reader(path)
    except UserError as refusal:
        told = str(refusal)
        assert str(folder) in told, told
        return told
    return ""
