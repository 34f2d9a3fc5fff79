"""A small project to run Snakemake in: this repository's code and workflow, made data, two experiments."""

import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import forked
import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "workflow", "config", "profiles", "papers", "reference", "notebooks", "src")
# What names experiments.
EXPERIMENTS = (
    "papers/leakbench/experiments/*.yaml", "papers/leakbench/claims.yaml", "papers/leakbench/differs.yaml",
    "papers/*/", "reference/*/*.*",
)  # fmt: skip
CELL = "tiny/tiny/tiny/none"

DATASET: dict[str, Any] = {
    "summary": "made blobs in the files of MNIST", "module": "idx",
    "parameters": {"names": [str(digit) for digit in range(10)]}, "sources": [{"folders": ["MNIST/raw"]}],
    "shape": [28, 28, 1], "classes": 10, "counts": {"train": 600, "test": 400},
}  # fmt: skip
VICTIM: dict[str, Any] = {
    "summary": "a victim that trains in a second",
    "module": "fcnn",
    "parameters": {"activation": "relu", "dropout": 0.5},
    "training": {"optimiser": "sgd", "lr": 0.05, "batch_size": 50, "epochs": 3},
}
FEDERATION: dict[str, Any] = {
    "summary": "two clients, three rounds", "clients": [1, 3], "rounds": 3,
    "private": {"split": "test", "start": 200, "stop": 400}, "local": {"lr": 0.01},
}  # fmt: skip
WORK: dict[str, Any] = {
    "title": "A work", "authors": "A. Uthor", "year": 2024, "link": "https://example.org",
    "claims": "Attacks work.", "threat_model": "An honest-but-curious server.",
}  # fmt: skip
EXPERIMENT: dict[str, Any] = {
    "item": "tiny", "title": "Two attacks on blobs", "shows": "Nothing published.",
    "cells": [
        {"dataset": ["tiny"], "victim": ["tiny"], "federation": ["tiny"], "attack": ["fidel", "other"]}
    ],
    "metrics": ["pearson", "mse"], "exhibit": {"rule": "matched", "rounds": 1},
    "figure": {"drawing": "side-by-side"},
}  # fmt: skip


@dataclass
class Ran:
    rc: int
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    @property
    def messages(self) -> list[str]:
        """The message of every job that ran, or would run."""
        return sorted(re.findall(r"^Job \d+: (.*)$", self.text, re.MULTILINE))

    @property
    def verbs(self) -> set[str]:
        """The first word of every job's message."""
        return {message.split()[0].rstrip(":") for message in self.messages}


@dataclass
class Project:
    """A project's folder and how to run commands in it as its user would."""

    root: Path
    data: Path | None
    environment: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        return self.root / name

    def write(self, name: str, value: dict[str, Any]) -> None:
        """Write one catalogue entry, by its path below config/; an experiment, below the folder of our own
        studies."""
        self.entry(name).write_text(yaml.safe_dump(value, sort_keys=False))

    def work(
        self, name: str, printed: str, measured: dict[str, Any], claims: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Write a work below papers/: table-1 as it is printed, its map, and claims."""
        folder = self.root / "papers" / name
        (folder / "tables").mkdir(parents=True, exist_ok=True)
        (folder / "tables" / "table-1.csv").write_text(printed)
        files = {
            "paper": WORK | {"source": name},
            "measured": {"table-1": measured},
            "claims": {"claims": list(claims)},
        }
        for file, value in files.items():
            (folder / f"{file}.yaml").write_text(yaml.safe_dump(value, sort_keys=False))

    def entry(self, name: str) -> Path:
        """Return the file of a catalogue entry."""
        folder = "papers/leakbench" if name.startswith("experiments/") else "config"
        return self.root / folder / f"{name}.yaml"

    def variables(self) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if k not in ("LEAKBENCH_DATA", "SNAKEMAKE_PROFILE")}
        own["PYTHONPATH"] = str(self.root / "src")
        # Of the two folders with a snakemake the tests' own comes first.
        folders = (ROOT / "tests/bin", Path(sys.executable).parent, own["PATH"])
        own["PATH"] = os.pathsep.join(map(str, folders))
        own[forked.FROM] = forked.owner()
        if self.data:
            own["LEAKBENCH_DATA"] = str(self.data)
        return own | self.environment

    def run(self, *command: str, timeout: float = 300) -> Ran:
        done = subprocess.run(
            command, cwd=self.root, env=self.variables(), capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip
        return Ran(done.returncode, done.stdout, done.stderr)

    def snakemake(self, *arguments: str, cores: int = 2) -> Ran:
        return self.run("snakemake", "--cores", str(cores), *arguments)

    def leakbench(self, *arguments: str) -> Ran:
        return self.run("leakbench", *arguments)

    def copy(self, to: Path) -> "Project":
        """Copy everything with its times, so that nothing in the copy is out of date."""
        shutil.copytree(self.root, to / self.root.name, symlinks=True)
        return Project(to / self.root.name, self.data, dict(self.environment))

    def logged(self, verb: str, part: str) -> str:
        """Return the command of the one job of `verb` whose command names `part`, as the log of the first run
        has it."""
        log = self.path("run.log").read_text()
        found = [
            c
            for c in re.findall(r"^Shell command: (.*)$", log, re.MULTILINE)
            if f"leakbench {verb} " in c and part in c
        ]
        assert len(found) == 1, found
        return found[0]

    def words(self, verb: str, part: str) -> list[str]:
        """Return the words of that command, behind `python -m leakbench`."""
        return shlex.split(self.logged(verb, part).split(" 2> ")[0])[3:]

    def shell(self, command: str) -> Ran:
        """Run a command as a person would who pastes it into a terminal at the project's root."""
        return self.run("bash", "-c", command)

    def leftovers(self) -> list[Path]:
        """Files that an interrupted writer would leave."""
        return [p for top in ("results", "data", "scratch") for p in (self.root / top).rglob("*.part")]


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Make learnable images uint8 [count, 28, 28] with labels uint8 [count]: one place per class, blurred and
    shaken."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    angle = 2 * np.pi * labels / 10
    centre = 13.5 + 8 * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, 1, (count, 2))
    grid = np.arange(28)
    away = (grid[:, None] - centre[:, 0, None, None]) ** 2 + (grid - centre[:, 1, None, None]) ** 2
    images = 230 * np.exp(-away / (2 * rng.uniform(2, 4, count)[:, None, None] ** 2)) + rng.uniform(
        0, 25, (count, 28, 28)
    )
    return images.astype(np.uint8), labels.astype(np.uint8)


def write_idx(folder: Path) -> Path:
    """Write the four files of an MNIST-like set below `folder`, as LEAKBENCH_DATA holds them."""
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, count, seed in (("train", 600, 1), ("t10k", 400, 2)):
        images, labels = blobs(count, seed)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(
            struct.pack(">HBB3I", 0, 8, 3, *images.shape) + images.tobytes()
        )
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(
            struct.pack(">HBBI", 0, 8, 1, count) + labels.tobytes()
        )
    return folder


def bare_project(folder: Path, *, experiments: bool = False) -> Path:
    """Copy this repository's parts into `folder`, with its experiments or with none."""
    root = folder / "tiny project"
    root.mkdir(parents=True)
    # Maps, claims and records name experiments, and go with them.
    names = [] if experiments else [path for pattern in EXPERIMENTS for path in ROOT.glob(pattern)]
    left_out = {path for path in names if path != ROOT / "papers/leakbench"}

    def ignored(here: str, names: list[str]) -> set[str]:
        return {n for n in names if n in ("__pycache__", ".snakemake") or Path(here, n) in left_out}

    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, root / part, ignore=ignored)
        else:
            shutil.copy2(ROOT / part, root / part)
    # A run of seconds would wait at its end for the last timer of the limit.
    profile = root / "profiles/default/config.yaml"
    profile.write_text(profile.read_text().replace("1000/10s", "100/1s"))
    return root


def tiny_project(folder: Path, data: Path | None = None) -> Project:
    """Make a project that runs end to end in seconds, in a folder with a space in its name."""
    project = Project(bare_project(folder), write_idx(folder / "local data") if data is None else data)
    project.write("datasets/tiny", DATASET)
    project.write("victims/tiny", VICTIM)
    project.write("federations/tiny", FEDERATION)
    project.write(
        "attacks/other",
        {"summary": "the same attack under another name", "module": "fidel", "matching": "best"},
    )
    project.write("scales/quick", {"summary": "tiny", "null_rounds": 2})
    project.write("scales/paper", {"summary": "tiny", "null_rounds": 2})
    project.write("experiments/tiny", EXPERIMENT)
    return project
