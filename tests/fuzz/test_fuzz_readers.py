"""Files from elsewhere are data: a reader returns a value or a refusal, and does nothing else."""

import os
import pickle
import random
import time
from pathlib import Path
from typing import Any

import mutants
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.errors import UserError
from leakbench.catalogue.spec import spec_of
from leakbench.observations.reading import read_observation

# Hardly a mutant of some kinds is read, so it takes up to MOST of a kind to meet one.
INPUTS, MOST = 1000, 1300
# Of the processor, whatever runs beside.
SECONDS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder two levels down in one that holds nothing else, which is where ../../x would go."""
    deep = tmp_path_factory.mktemp("outside") / "one" / "two"
    deep.mkdir(parents=True)
    return deep


@pytest.fixture(scope="module")
def sound(folder: Path) -> dict[str, bytes]:
    return mutants.seeds(folder / "seeds")


@pytest.mark.parametrize("kind", mutants.KINDS)
def test_what_is_mutated_is_sound(kind: str, sound: dict[str, bytes], folder: Path) -> None:
    """Guards the test below."""
    assert mutants.read(kind, sound[kind], folder) == ""


def test_mutants_are_read_or_refused(sound: dict[str, bytes], folder: Path) -> None:
    slowest = 0.0
    for kind in mutants.KINDS:
        # Both outcomes are met, so that neither is what everything ends in. Of a spec or an entry hardly any
        # value can be another, so nearly all of its mutants are refused.
        wanted = {True} if kind.endswith((" spec", " of a work")) or "entry" in kind else {True, False}
        # The same mutants in every run, so that what passes here passes elsewhere; `make fuzz` looks further.
        choices = random.Random(kind)
        outcomes: set[bool] = set()
        for number in range(MOST):
            if number * len(mutants.KINDS) >= INPUTS and wanted <= outcomes:
                break
            data = choices.randbytes(choices.randint(4, 64))
            start = time.process_time()
            try:
                changed = mutants.mutant(mutants.Bytes(data), sound[kind])
                outcomes.add(bool(mutants.read(kind, changed, folder)))
            except Exception as error:
                error.add_note(f"{kind}: {data.hex()}")
                raise
            slowest = max(slowest, time.process_time() - start)
        assert wanted <= outcomes, kind
    assert slowest < SECONDS
    allowed = {"mutant.safetensors", "mutant.parquet", "mutant.json", "sound.safetensors", "seeds"}
    allowed |= {"kept.csv", "kept.json", "mutant.data", "mutant.idx", "mutant.png", "mutant.pickle"}
    allowed |= {"mutant.csv", "mutant.yaml", "mutant.exhibit.safetensors"}
    allowed |= {"attack.json", "guesses.safetensors", "scratch"}
    assert {path.name for path in folder.iterdir()} <= allowed
    assert [path.name for path in folder.parents[1].rglob("*") if path.is_file()] == [
        path.name for path in folder.parents[1].rglob("*") if path.is_file() and path.parent == folder
    ]


class Planted:
    """What unpickling it does: it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("kind", mutants.KINDS)
def test_a_planted_pickle_is_inert(kind: str, sound: dict[str, bytes], folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    planted = pickle.dumps(Planted(mark))
    pickle.loads(planted)  # noqa: S301
    assert mark.exists()
    mark.rmdir()
    assert mutants.read(kind, planted, folder)
    mutants.read(kind, sound[kind] + planted, folder)
    assert not mark.exists()


def test_a_pickle_in_a_tables_type_is_not_executed(tmp_path: Path) -> None:
    """Arrow had a type that is a pickle; its name in a file's schema is all that it takes."""
    mark = tmp_path / "executed"
    kind = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Planted(mark)),
    }
    field = pa.field("x", pa.int64(), metadata=kind)
    path = tmp_path / "mutant.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1])], schema=pa.schema([field])), path)
    mutants.read("table", path.read_bytes(), tmp_path)
    assert not mark.exists()


def test_a_name_that_climbs_is_a_name(tmp_path: Path) -> None:
    deep = tmp_path / "one" / "two"
    deep.mkdir(parents=True)
    write_tensors(deep / "x.safetensors", {"updates/../../x": np.zeros(1, np.float32)}, {"knows": "../../x"})
    assert read_facts(deep / "x.safetensors") == {"knows": "../../x"}
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["x.safetensors"]


@pytest.mark.parametrize(
    ("change", "says"),
    [({"local": {"lr": 1e-300, "batch_size": None, "epochs": 1}}, "local.lr is not a number from 1e-30"),
     ({"network": {"shape": [100_000, 100_000, 1]}}, "network.shape"),
     ({"network": {"shape": [4096, 4096, 1]}, "clients": [100_000, 100_000]}, "values of images"),
     ({"local": {"lr": 0.1, "batch_size": None, "epochs": 100_000}}, "steps of a client"),
     ({"clients": [100_000, 1], "local": {"lr": 0.1, "batch_size": 1, "epochs": 1}}, "steps of a client"),
     ({"knows": {"defence": "a.b"}}, "knows.defence"), ({"knows": {"defence": "__init__"}}, "knows.defence")],
    ids=str,
)  # fmt: skip
def test_an_observation_of_too_much_is_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    mutants.observation(path)
    tensors, facts = read_tensors(path)
    for name, value in change.items():
        facts[name] = facts[name] | value if isinstance(value, dict) else value
    write_tensors(path, tensors, facts)
    begin = time.process_time()
    with pytest.raises(UserError, match=says):
        read_observation(path)
    assert time.process_time() - begin < SECONDS


def test_an_observation_without_a_round_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    mutants.observation(path)
    tensors, facts = read_tensors(path)
    empty = {name: value[:0] for name, value in tensors.items() if name.startswith("updates/")}
    write_tensors(path, tensors | empty | {"origin": np.zeros(0, np.int64)}, facts)
    with pytest.raises(UserError, match="in 0 rounds"):
        read_observation(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"null_rounds": "x"}, "null_rounds"), ({"null_rounds": -5}, "null_rounds"), ({"seed": -1}, "seed"),
     ({"attack": None}, "no mapping"), ({"attack": {"module": "os"}}, "no file os.py"),
     ({"attack": {"module": "fidel", "parameters": {"iterations": 10**15}}}, "is beyond 10000000"),
     ({"attack": {"module": "fidel", "parameters": {"x": 1}}}, "parameters.x")],
    ids=str,
)  # fmt: skip
def test_a_spec_by_hand_is_checked(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        spec_of("attack", mutants.SPEC | change, "spec.json")
