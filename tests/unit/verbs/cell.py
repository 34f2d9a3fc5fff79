"""A made cell on disk: two clients, known images, known guesses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from leakbench import victims
from leakbench.artefacts import Facts, read_table, to_json, write_tensors, write_text
from leakbench.verbs.score import score

STEM, ORIGIN = "made/victim/fed/none/attack/0", "made/victim/fed/none/0"
SHAPE = (8, 8, 1)
KNOWS = {"labels": "unknown"}


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

    def truth(self, client: int) -> np.ndarray:
        """Return the private images [rounds, k, C, H, W] of one client."""
        return self.pixels[self.index[client]]

    def score(
        self,
        *metrics: str,
        matching: str = "best",
        judges: tuple[str, ...] = (),
        files: list[Path] | None = None,
        attacks: tuple[str, ...] = ("attack",),
        **changes: Any,
    ) -> tuple[pd.DataFrame, Facts]:
        """Score the cell and return its rows, and the facts of its attack. All `attacks` make the same guesses."""
        names = ("dataset", "victim", "federation", "defence")
        cell = dict(zip(names, ORIGIN.split("/"), strict=False)) | {"seed": 0}
        attack = {"metrics": list(metrics), "matching": matching, "judges": list(judges)}
        spec = self.root / "spec.json"
        write_text(
            spec, to_json({"cell": cell, "attacks": dict.fromkeys(attacks, attack), "judges": list(judges)})
        )
        paths: dict[str, Any] = {
            "guesses": [self.results / f"guesses/{STEM}.safetensors"] * len(attacks),
            "truth": self.results / f"truth/{ORIGIN}.safetensors",
            "data": self.root / "data/made.safetensors",
            "victim": self.results / "victims/made/victim/0.safetensors",
            "spec": spec,
            "out": self.scores,
            "attack_records": None,
            "backbones": None,
            "record": None,
            "judges": files,
        }
        score(**paths | changes)
        rows, facts = read_table(self.scores)
        return rows, facts.get("attacks", {}).get("attack", facts)


def make_cell(
    root: Path, guess: np.ndarray, usable: np.ndarray, ks: tuple[int, ...] = (2, 3), target: str = "images"
) -> Cell:
    """Write data, victim, truth and guesses; `guess` [rounds, clients, n, …], the null attack is noise in two rounds."""
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
    write_tensors(
        cell.results / "victims/made/victim/0.safetensors", state, {"network": network, "checkpoints": [0]}
    )
    secret = (
        {f"images/{c}": i for c, i in enumerate(index)}
        | {f"labels/{c}": i % 10 for c, i in enumerate(index)}
        | {
            "checkpoint": np.full(rounds, 30),
            "pass": np.zeros(rounds, np.int64),
        }
    )
    write_tensors(
        cell.results / f"truth/{ORIGIN}.safetensors", secret, {"split": "test", "clients": list(ks)}
    )
    write_guesses(cell, guess, usable, target)
    return cell


def write_guesses(cell: Cell, guess: np.ndarray, usable: np.ndarray, target: str = "images") -> None:
    """Write what the attack claims, and a null attack that is noise."""
    null = np.random.default_rng(9).random((2, *guess.shape[1:]), dtype=np.float32)
    tensors = {
        "images": guess.astype(np.float32),
        "usable": usable,
        "null/images": null,
        "null/usable": np.ones(null.shape[:3], bool),
    }
    facts = {"target": target, "iterations": 0, "knows": KNOWS, "matching": "best"}
    write_tensors(cell.results / f"guesses/{STEM}.safetensors", tensors, facts)


def known_guesses(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Return three rounds of four candidates for each client.

    Round 0: the client's first image, its second, its first again at another scale, a dead one. Round 1: the second
    image only, as the last candidate. Round 2: nothing at all.
    """
    guess, usable = np.zeros((3, 2, 4, 1, 8, 8), np.float32), np.zeros((3, 2, 4), bool)
    for client in range(2):
        first, second = cell.truth(client)[0, :2]
        guess[0, client, :3], usable[0, client, :3] = (first, second, 0.5 * first - 0.1), True
        guess[1, client, 3], usable[1, client, 3] = cell.truth(client)[1, 1], True
    return guess, usable
