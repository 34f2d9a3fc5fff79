"""A small catalogue to plan from."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import real_flow

from leakbench.catalogue import load, resolve, signature
from leakbench.catalogue.workflow import Workflow

ASKING = {"told": "tanh", "asked": "raw"}
ENTRIES: dict[str, dict[str, Any]] = {
    "datasets/d": {"summary": "x", "module": "orl", "shape": [28, 28, 1], "classes": 10,
    "sources": [{"folders": ["MNIST/raw"]}],
    "counts": {"train": 60, "test": 40}}, "victims/v": {
        "summary": "x",
        "module": "fcnn",
        "training": {"optimiser": "sgd", "lr": 0.1, "batch_size": 10, "epochs": 30,
        "checkpoints": [0, 5, 30]},
        "variants": {"tanh": {"parameters": {"activation": "tanh"}}, "raw": {"training": None}},
    },
    "federations/f": {
        "summary": "x", "clients": [1, 2], "rounds": 200,
        "private": {"split": "test", "start": 20, "stop": 40}, "local": {"lr": 0.1, "batch_size": 4},
    },
    "defences/none": {"summary": "x"},
    "attacks/a": {"summary": "x", "module": "fidel"},
    "attacks/b": {"summary": "x", "module": "fidel"},
    "experiments/e": {
        "item": "i", "title": "t", "shows": "s", "metrics": ["mse"],
        "figure": {"drawing": "dots", "metrics": ["mse"]},
        "cells": [{"dataset": ["d"], "victim": ["v", "v-tanh"], "federation": ["f"], "attack": ["a", "b"]}],
        "seeds": [0, 1],
    },
    "scales/quick": {"summary": "x", "null_rounds": 2},
}  # fmt: skip


@pytest.fixture(scope="session")
def flow() -> Workflow:
    """Return what the rules ask at the paper scale of this repository's catalogue. Do not change it."""
    return real_flow("paper")


@pytest.fixture
def root(tmp_path: Path) -> Callable[..., Path]:
    """Return a writer of a catalogue: keyword arguments replace (or, if None, leave out) an entry's keys."""

    def write(changes: dict[str, dict[str, Any]] | None = None) -> Path:
        for kind in ("generators", "trainings", "servers", *{name.partition("/")[0] for name in ENTRIES}):
            (tmp_path / "config" / kind).mkdir(parents=True, exist_ok=True)
        for read in (load.load_kind, load.files_of, load.file_of, load.stems):
            read.cache_clear()
        (tmp_path / "config/salt.yaml").write_text(f"salt: '{32 * '0'}'\n")
        (tmp_path / "papers/own/experiments").mkdir(parents=True, exist_ok=True)
        for name in ENTRIES.keys() | (changes or {}).keys():
            value = ENTRIES.get(name, {}) | (changes or {}).get(name, {})
            folder = "papers/own" if name.startswith("experiments/") else "config"
            (tmp_path / folder / f"{name}.yaml").write_text(yaml.safe_dump(value))
        return tmp_path

    return write


@pytest.fixture(autouse=True)
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let experiments ask for two more metrics, of which each asks a variant of the victim `v`."""
    more = {name: signature.Declared("", (f"judge_v_{victim}",)) for name, victim in ASKING.items()}
    monkeypatch.setattr(resolve, "declared_metrics", lambda: signature.declared_metrics() | more)


@pytest.fixture
def forget() -> Iterator[None]:
    """Forget what was read of parts, before and after a test that looks at other ones."""

    def clear() -> None:
        names = ("definition", "check_signature", "parameters_model", "part_names", "constant")
        for name in (*names, "declared_metrics"):
            getattr(signature, name).cache_clear()

    clear()
    yield
    clear()
