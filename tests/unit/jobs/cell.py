"""A made cell on disk: two clients, known images, known guesses."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from leakbench.base.artefacts import Facts, read_table, read_tensors, write_tensors
from leakbench.catalogue.cell import PICTURED
from leakbench.catalogue.cell import Cell as Parsed
from leakbench.catalogue.jobs import ScoreSpec, TableSpec
from leakbench.jobs.score import score
from leakbench.jobs.table import table
from leakbench.networks import victims
from leakbench.results.tables.attacked import aggregate
from leakbench.results.tables.failures import failed
from leakbench.results.tables.pictures import Files

STEM, ORIGIN = "made/victim/fed/none/attack/0", "made/victim/fed/none/0"
SHAPE = (8, 8, 1)
KNOWS = {"labels": "unknown"}
SHARES = {STEM: {"victim": 0.5}}


@dataclass
class Cell:
    """One cell below `root`/results/quick; `pixels` [n, C, H, W] are the test images in [0, 1]."""

    root: Path
    pixels: np.ndarray
    index: list[np.ndarray]

    @property
    def results(self) -> Path:
        return self.root / "results/quick"

    @property
    def scores(self) -> Path:
        return self.results / f"scores/{ORIGIN}.parquet"

    def files(self) -> Files:
        own = (f"guesses/{STEM}", f"truth/{ORIGIN}", "victims/made/victim/0", "../../data/made")
        return Files(*(self.results / f"{name}.safetensors" for name in own))

    def truth(self, client: int) -> np.ndarray:
        """Return the private images [rounds, k, C, H, W] of one client."""
        return self.pixels[self.index[client]]

    def score(
        self, *metrics: str, matching: str = "best", judges: tuple[str, ...] = (),
        files: list[Path] | None = None, attacks: tuple[str, ...] = ("attack",), decays: bool = False,
        **changes: Any,
    ) -> tuple[pd.DataFrame, Facts]:  # fmt: skip
        """Score the cell and return its rows, and the facts of its attack. All `attacks` make the same
        guesses."""
        names = ("dataset", "victim", "federation", "defence")
        cell = dict(zip(names, ORIGIN.split("/"), strict=False)) | {"seed": 0}
        attack = {"metrics": [*metrics], "matching": matching, "judges": [*judges], "decays": decays}
        asked = {"cell": cell, "attacks": dict.fromkeys(attacks, attack), "judges": list(judges)}
        guesses, truth, victim, data = self.files()
        spec = ScoreSpec.model_validate(asked)
        many = [guesses] * len(attacks)
        score(many, truth, data, victim, **{"spec": spec, "out": self.scores, "judges": files} | changes)
        rows, facts = read_table(self.scores)
        return rows, facts.get("attacks", {}).get("attack", facts)


@dataclass
class Tabled:
    """What the verb wrote: its table, the facts and tensors of its exhibit, and its trials."""

    lines: pd.DataFrame
    facts: Facts
    tensors: dict[str, np.ndarray]
    trials: pd.DataFrame


def make_table(cell: Cell, cells: list[str], scores: list[Path], **experiment: Any) -> Tabled:
    asked = {"seeds": [0], "metrics": ["pearson", "mse"], "success": [], "client": None, "exhibit": None}
    value = {"cells": cells, "scale": "quick", "left_out": "", "cells_left_out": {}, "shares": SHARES}
    out, exhibit, trials = (cell.results / f"x.{suffix}" for suffix in ("csv", "safetensors", "parquet"))
    spec = TableSpec.model_validate(value | {"experiment": asked | experiment})
    files = cell.files()
    needed = [map(Parsed.parse(stem).path, PICTURED) for stem in cells]
    kinds = zip(("guesses", "truths", "victims", "data"), files, zip(*needed, strict=True), strict=True)
    shown = {kind: [path] * len(set(names)) for kind, path, names in kinds}
    table(scores, spec, out, exhibit, trials, **(shown if experiment.get("exhibit") else {}))
    lines = pd.read_csv(io.StringIO(out.read_text()), keep_default_na=False, na_values=["nan"])
    tensors, facts = read_tensors(exhibit)
    return Tabled(lines, facts, tensors, read_table(trials)[0])


def make_cell(
    root: Path, guess: np.ndarray, usable: np.ndarray, ks: tuple[int, ...] = (2, 3), target: str = "images"
) -> Cell:
    """Write data, victim, truth and guesses; `guess` [rounds, clients, n, …], the null attack is noise in two
    rounds."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, *SHAPE), dtype=np.uint8)
    train = rng.integers(0, 100, (30, *SHAPE), dtype=np.uint8)
    rounds = len(guess)
    index = [np.stack([rng.choice(20, k, replace=False) for _ in range(rounds)]) for k in ks]
    cell = Cell(root, images.transpose(0, 3, 1, 2).astype(np.float32) / 255, index)
    write_tensors(root / "data/made.safetensors", {"test/images": images, "train/images": train}, {})
    torch.manual_seed(0)
    model = victims.build("cnn", SHAPE, 10, {})
    network = {"module": "cnn", "parameters": {}, "shape": list(SHAPE), "classes": 10}
    state = {f"epoch-0/{name}": value.numpy() for name, value in model.state_dict().items()}
    facts = {"network": network, "checkpoints": [0]}
    write_tensors(cell.results / "victims/made/victim/0.safetensors", state, facts)
    secret = {"checkpoint": np.full(rounds, 30), "pass": np.zeros(rounds, np.int64)}
    secret |= {f"images/{c}": i for c, i in enumerate(index)}
    secret |= {f"labels/{c}": i % 10 for c, i in enumerate(index)}
    about = {"split": "test", "clients": list(ks)}
    write_tensors(cell.results / f"truth/{ORIGIN}.safetensors", secret, about)
    write_guesses(cell, guess, usable, target)
    return cell


def write_guesses(cell: Cell, guess: np.ndarray, usable: np.ndarray, target: str = "images") -> None:
    """Write what the attack claims, and a null attack that is noise."""
    null = np.random.default_rng(9).random((2, *guess.shape[1:]), dtype=np.float32)
    tensors = {"images": guess.astype(np.float32), "usable": usable}
    tensors |= {"null/images": null, "null/usable": np.ones(null.shape[:3], bool)}
    facts = {
        "target": target, "iterations": 0, "knows": KNOWS, "matching": "best", "device": "cpu",
        "versions": {"torch": "2.15.0"},
    }  # fmt: skip
    write_tensors(cell.results / f"guesses/{STEM}.safetensors", tensors, facts)


def tabled(rows: pd.DataFrame, metrics: list[str], success: tuple[str, ...] = ()) -> pd.DataFrame:
    """Return the table of score rows of an attack that reconstructs images."""
    return aggregate(rows.assign(failed=failed(rows, "images")), metrics, "quick", success)[0]


def known_guesses(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Return three rounds of four candidates for each client.

    Round 0: the client's first image, its second, its first again at another scale, a dead one. Round 1: the
    second image only, as the last candidate. Round 2: nothing at all.
    """
    guess, usable = np.zeros((3, 2, 4, 1, 8, 8), np.float32), np.zeros((3, 2, 4), bool)
    for client in range(2):
        first, second = cell.truth(client)[0, :2]
        guess[0, client, :3], usable[0, client, :3] = (first, second, 0.5 * first - 0.1), True
        guess[1, client, 3], usable[1, client, 3] = cell.truth(client)[1, 1], True
    return guess, usable
