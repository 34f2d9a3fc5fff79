"""Files that nobody wrote on purpose: real ones of each kind, changed by random bytes, and what a reader may
make of them.

Shared by the test (hypothesis) and the nightly run (atheris).
"""

import contextlib
import json
import pickle
import shutil
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
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
    write_json,
    write_table,
    write_tensors,
    write_text,
)
from leakbench.base.cellname import CELL
from leakbench.base.errors import UserError
from leakbench.base.provenance import read_spec
from leakbench.base.whole import file_digest
from leakbench.base.yamls import read_yaml
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.spec import spec_of
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.idx import read_idx
from leakbench.datasets.pictures import opened
from leakbench.datasets.records import records
from leakbench.datasets.unpickle import read_pickle
from leakbench.jobs.arguments import check
from leakbench.jobs.attack import attack
from leakbench.jobs.fetch import fetch
from leakbench.jobs.flower_capture import flower_capture
from leakbench.networks import generators, victims
from leakbench.observations.reading import read_observation
from leakbench.papers.bibliography import bibliography
from leakbench.papers.findings import findings
from leakbench.papers.leaderboard import Agreed, board, read_entry
from leakbench.papers.reference import tables
from leakbench.papers.scorecard.recorded import of_records
from leakbench.papers.verdicts.compare import compared, read_scorecard, summary
from leakbench.papers.work import read_papers
from leakbench.results.figures.result import TENSORS, read_result

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "unit/papers"))
import tests_world  # noqa: E402

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
    '"model"', '"at() / (at() - at())"', '"max([])"', '"(a+)+$"',
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
        lambda path: write_text(path, to_json((specs.SPECS | specs.SHOWN)[kind])),
        lambda path: spec_of(specs.verb_of(kind), read_spec(path), str(path)),
    )


@contextlib.contextmanager
def _world(path: Path, place: str) -> Iterator[Path]:
    """Yield a folder that holds a mutant at a place, and remove it afterwards."""
    world = path.with_name("world")
    try:
        (world / place).parent.mkdir(parents=True)
        shutil.copy(path, world / place)
        yield world
    finally:
        shutil.rmtree(world)


def _entry_of(kind: str, source: str) -> tuple[str, Callable[[Path], None], Callable[[Path], Any]]:
    """Return the kind of the catalogue's files of one kind; JSON is YAML, too."""

    def read(path: Path) -> None:
        home = "papers/x/experiments" if kind == "experiments" else f"config/{kind}"
        with _world(path, f"{home}/{Path(source).name}") as world:
            load_kind.__wrapped__(world / "config", kind)

    return ".json", lambda path: write_text(path, to_json(read_yaml(TESTS.parent / source))), read


def _of_a_work(place: str, text: str) -> tuple[str, Callable[[Path], None], Callable[[Path], Any]]:
    """Return the kind of one file of a work, which is then judged."""

    def read(path: Path) -> None:
        with _world(path, f"papers/tiny/{place}") as world:
            mutant = path.read_bytes()
            papers = tests_world.paper(world)
            (papers / "tiny" / place).write_bytes(mutant)
            tests_world.card(papers, tests_world.tabled())

    return Path(place).suffix, lambda path: write_text(path, text), read


def _findings(path: Path) -> None:
    with _world(path, "findings.yaml") as world:
        findings(path, read_papers(tests_world.paper(world)), [tests_world.tabled()])


def _cited(path: Path) -> None:
    with _world(path, "bibliography.yaml") as world:
        for work in bibliography.__wrapped__(world).values():
            str(work)


def recorded_table(path: Path) -> None:
    """Write the table in which what the small paper prints is true."""
    write_text(path, tests_world.tabled().lines["tiny-table-1"].frame.to_csv(index=False))


def _record_of(table: Path) -> str:
    made = dict.fromkeys(("device", "commit", "date", "specs"), "x") | {"versions": {}, "absent": {}}
    falls = {"shares": {"a": {"victim": 0.5}}, "falls": {"a": [0.5]}, "partners": "drawn"}
    return to_json(made | falls | {"files": {".csv": file_digest(table)}})


def _recorded_table(path: Path) -> None:
    with _world(path, "quick/tiny-table-1.csv") as world:
        table = world / "quick/tiny-table-1.csv"
        write_text(table.with_suffix(".json"), _record_of(table))
        tests_world.card(tests_world.paper(world), of_records(tables([table])))


def record(path: Path) -> None:
    """Write a sound record of the table `kept.csv`, which lies where mutants of the record do."""
    csv = path.parents[1] / "kept.csv"
    recorded_table(csv)
    write_text(path, _record_of(csv))


def recorded_trials(path: Path) -> None:
    write_table(path, tests_world.tabled().lines["tiny-table-1"]._trials, {})  # type: ignore[arg-type]


def exhibit(path: Path) -> None:
    about = dict(zip(CELL, ("digits", "v", "f", "none", "fast"), strict=True)) | {"rule": "matched"}
    pictures = dict.fromkeys(TENSORS[:2], np.zeros((1, 1, 4, 4), np.uint8))
    tensors = pictures | dict.fromkeys(TENSORS[2:], np.zeros(1))
    facts = {"panels": [about], "scale": "quick", "absent_cells": {}}
    write_tensors(path, {f"0/{name}": value for name, value in tensors.items()}, facts)


def medians(path: Path) -> None:
    write_tensors(path, {"digits/v/f/none/fast": np.zeros((2, 4, 4, 1), np.uint8)}, {})


def _beside(suffix: str) -> Callable[[Path], None]:
    """Return the reader of a file beside a recorded table, of which the record has the digest."""

    def read(path: Path) -> None:
        with _world(path, f"quick/tiny-table-1{suffix}") as world:
            table = world / "quick/tiny-table-1.csv"
            recorded_table(table)
            value = json.loads(_record_of(table))
            value["files"][suffix] = file_digest(table.with_suffix(suffix))
            write_text(table.with_suffix(".json"), to_json(value))
            exhibit(world / "exhibit")
            write_text(world / "spec.json", to_json(specs.SHOWN["figure"]))
            tests_world.card(tests_world.paper(world), of_records(tables([table])))
            read_result(*(str(world / name) for name in (table, "exhibit", "spec.json")), (), [str(table)])

    return read


def _recorded(path: Path) -> None:
    # Other mutants lie beside this one, and a record lists what lies beside it.
    kept = tables([path.rename(path.with_name("kept.json")).with_suffix(".csv")])
    with _world(kept[0].table, "kept.csv") as world:
        tests_world.card(tests_world.paper(world), of_records(kept))
    kept[0].said()


CELLS, NONE = frozenset({("d", "v", "f", "fidel")}), frozenset({"none"})
AGREED = Agreed("a", CELLS, NONE, frozenset(), frozenset({"ssim"}), ("quick",))


def entered(path: Path) -> None:
    """Write a sound entry of the leaderboard, of the name of its mutants."""
    line = {
        "dataset": "d", "victim": "v", "attack": "fidel", "client": 0, "local_samples": 1, "metric": "ssim",
        "mean": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 3, "failure_rate": 0.0,
    }  # fmt: skip
    text = dict.fromkeys(("summary", "source", "settings", "device", "commit"), "x") | {"attacker": ""}
    named = {"version": 1, "name": "mutant", "ensemble": "a", "scale": "quick", "versions": {}, "absent": {}}
    lines = [line | {"defence": name} for name in ("none", "mutant")]
    write_text(path, to_json(named | text | {"lines": lines}))


def _entered(path: Path) -> None:
    # Every change is refused by the digest, unless the mutant is written as entries are.
    with contextlib.suppress(ValueError, TypeError):
        write_json(path, json.loads(path.read_bytes()))
    board([read_entry(path, AGREED)], AGREED.scales)


NODES = {"nodes": [1, 2], "clients": [3, 3], "asked": [1, 2], "failed": {"3": "x"}, "config": {"lr": 0.1}}


def flower_round(path: Path) -> None:
    """Write a sound round of a Flower app: what was sent, and what two clients returned."""
    weights = _network(path.parent)[0].items()
    sources = ("global", "returned/1", "returned/2")
    write_tensors(path, {f"{source}/{name}": value for source in sources for name, value in weights}, NODES)


def flower_spec(path: Path) -> None:
    local = {"local": FACTS["local"], "mode": "train", "knows": {"defence": "none"}}
    write_text(path, to_json(local | {"network": _network(path.parent)[1]}))


def _flower(place: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        with _world(path, place) as world:
            for name, write in {"round-1.safetensors": flower_round, "network.json": flower_spec}.items():
                if name != place:
                    write(world / name)
            flower_capture(world, world / "network.json", world / "observed.safetensors")

    return read


def _fetched(path: Path) -> None:
    with _world(path, "spec.json") as world:
        out = world / "data.safetensors"
        check("fetch", {"spec": path, "out": out, "digest": None})
        try:
            fetch(path, out, None, world / "scratch")
        except UserError as refusal:
            # It names the data set.
            raise UserError(f"{path}: {refusal}") from refusal


def _scorecard(path: Path) -> None:
    rows = read_scorecard(path)
    summary(compared(rows, rows))


SPEC = {
    "attack": {"module": "fidel", "parameters": {}}, "attack_name": "fidel", "null_rounds": 2, "seed": 0,
}  # fmt: skip
COUNTED = SPEC | {"attack": {"module": "labels", "parameters": {}, "labels": "counted"}}


def _observed(path: Path) -> None:
    """Read an observation, and attack what the reader accepts."""
    torch.manual_seed(0)
    read_observation(path)
    out = path.parent / "guesses.safetensors"
    for spec in (SPEC, COUNTED):
        attack(path, spec_of("attack", spec, "spec.json"), out, None, None, None, path.parent / "scratch")
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


ENTRIES = {
    "attacks": "config/attacks/dlf.yaml", "datasets": "config/datasets/mnist.yaml",
    "defences": "config/defences/dp-sgd.yaml", "federations": "config/federations/grnn.yaml",
    "generators": "config/generators/fidel-mnist.yaml", "scales": "config/scales/smoke.yaml",
    "servers": "config/servers/robbing-the-fed.yaml", "trainings": "config/trainings/sgd.yaml",
    "victims": "config/victims/fcnn.yaml", "experiments": "papers/agic/experiments/agic-table-1.yaml",
}  # fmt: skip
WORK = {
    "paper.yaml": to_json(tests_world.PAPER | {"partial": {"photo*": "x"}, "unstated": ["images"]}),
    "measured.yaml": to_json(tests_world.MAP),
    "claims.yaml": to_json(tests_world.CLAIMS),
    "differs.yaml": to_json({"tiny.table-1.1": {"hypothesis": "x", "variant": "x", "outcome": "x"}}),
    "tables/table-1.csv": tests_world.PRINT,
}
FINDINGS = {
    "introduction": "x",
    "findings": [{
        "title": "x", "claim": "tiny.table-1.fast-better", "says": "{claim:.2f} {more:.1f}",
        "because": "x", "guess": True,
        "numbers": {"more": {
            "read": tests_world.CLAIMS["claims"][0]["read"] | {"attack": "fast"}, "quantity": "at() + 1",
        }},
    }],
}  # fmt: skip
CITED = {"a": {"title": "x", "authors": ["A, B", "others"], "year": 2020, "link": "https://arxiv.org/abs/1"}}

# Suffix of a file beside a record → what writes a sound one.
BESIDE = {".parquet": recorded_trials, ".exhibit.safetensors": exhibit, ".safetensors": medians}
# Kind → (suffix, what writes a sound one, what reads it).
KINDS: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any]]] = {
    "observation": (".safetensors", observation, _observed),
    "audited": (".safetensors", observation, _audited),
    "tensors": (".safetensors", observation, read_tensors), "labels": (".safetensors", labels, _labelled),
    "generator": (".safetensors", generator, _generator), "table": (".parquet", table, _table),
    **{f"{kind} spec": _spec_of(kind) for kind in (*specs.SPECS, *specs.SHOWN)},
    "fetch spec": (".json", lambda path: write_text(path, to_json(specs.FETCH)), _fetched),
    **{f"entry of {kind}": _entry_of(kind, source) for kind, source in ENTRIES.items()},
    "record": (".json", record, _recorded),
    **{f"recorded {write.__name__}": (suffix, write, _beside(suffix)) for suffix, write in BESIDE.items()},
    "recorded table": (".csv", recorded_table, _recorded_table),
    **{f"{place} of a work": _of_a_work(place, text) for place, text in WORK.items()},
    "findings": (".yaml", lambda path: write_text(path, to_json(FINDINGS)), _findings),
    "bibliography": (".yaml", lambda path: write_text(path, to_json(CITED)), _cited),
    "leaderboard": (".json", entered, _entered),
    "scorecard": (".csv", lambda path: write_text(path, "id,class,verdict\na,result,differs\n"), _scorecard),
    "Flower round": (".safetensors", flower_round, _flower("round-1.safetensors")),
    "Flower spec": (".json", flower_spec, _flower("network.json")),
    "idx": (".idx", idx, _of_a_data_set(read_idx)), "picture": (".png", picture, _of_a_data_set(opened)),
    "people": (".data", people, _of_a_data_set(_people)),
    "batch": (".pickle", batch, _of_a_data_set(read_pickle)),
}  # fmt: skip


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
    if how <= 3 and sound[7:9] == b"\0{":
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
