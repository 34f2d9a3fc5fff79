"""The truth of a capture, which an attack must not know, and what attacks on one capture share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.base.artefacts import Facts, read_facts
from leakbench.base.pixels import pixels
from leakbench.datasets.columns import Column
from leakbench.metrics.baselines import DATASET_MEAN, FREQUENT, TYPICAL, dataset_mean, typical_record
from leakbench.metrics.text import numbers

T = TypeVar("T")


def aim_at(target: str, images: np.ndarray, victim: Path) -> np.ndarray:
    """Return what an attack on images or on features aims at, float32 [m, …]."""
    seen = pixels(images)
    if target == "images":
        return seen
    import torch

    from leakbench.networks.layers import dense_input
    from leakbench.networks.victims.file import load_victim

    model, _ = load_victim(victim)
    found: np.ndarray = dense_input(model, torch.from_numpy(seen)).numpy()
    return found


@dataclass(frozen=True)
class Truths:
    """The truth of a capture, the data set and the victim's file; `made` keeps what its attacks share."""

    secret: Mapping[str, np.ndarray]
    facts: Facts
    arrays: Mapping[str, np.ndarray]
    victim: Path
    columns: Sequence[Column] = ()
    made: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def once(self, make: Callable[[], T], *key: object) -> T:
        """Return what `make` makes; it is called once for each key."""
        if key not in self.made:
            self.made[key] = make()
        found: T = self.made[key]
        return found

    @cached_property
    def pictures(self) -> np.ndarray:
        return self.arrays[f"{self.facts['split']}/images"]

    def aims(self, client: int, target: str) -> np.ndarray:
        """Return what an attack on a client aims at, [rounds, k, …]."""
        index = self.secret[f"images/{client}"]
        aim = aim_at(target, self.pictures[index.reshape(-1)], self.victim)
        return aim.reshape(*index.shape, *aim.shape[1:])

    @property
    def known(self) -> np.ndarray:
        """Return the publicly known images of the data set, as they are stored."""
        return self.arrays.get("train/images", self.pictures)

    def blind(self, target: str) -> dict[str, np.ndarray]:
        """Return null baseline → what is guessed for every private image from public knowledge alone."""
        if target != "images":
            return {DATASET_MEAN: aim_at("features", np.array(self.known[:1000]), self.victim).mean(0)}
        if self.vocabulary:
            counts = self.token_counts()
            frequent = np.argsort(-counts.sum(1), kind="stable")[: counts.shape[1]]
            guesses = {TYPICAL: counts.argmax(0), FREQUENT: frequent}
            return {
                name: (each / self.vocabulary).astype(np.float32)[None, None]
                for name, each in guesses.items()
            }
        out = {DATASET_MEAN: dataset_mean(self.known).transpose(2, 0, 1)}
        if self.columns:
            records = np.array(self.known).reshape(len(self.known), -1)
            out[TYPICAL] = typical_record(records, self.columns).reshape(out[DATASET_MEAN].shape)
        return out

    @cached_property
    def vocabulary(self) -> int:
        """Return the number of different tokens of text; 0 for other data, whose labels are no sentences."""
        labels = self.arrays.get(f"{self.facts['split']}/labels")
        if labels is None or labels.ndim == 1 or self.pictures.dtype == np.uint8:
            return 0
        return int(read_facts(self.victim)["network"]["classes"])

    def token_counts(self) -> np.ndarray:
        """Return how often each token stands at each place of publicly known text, int64 [tokens, places]."""
        tokens = numbers(np.array(self.known)[:, 0, None, None, :, 0], self.vocabulary)
        return np.stack([np.bincount(place, minlength=self.vocabulary) for place in tokens.T], 1)

    def needs(self, pool: int) -> dict[str, Callable[[], Any] | None]:
        """Return what metrics may need of the data set, name → the function that makes it."""
        found: dict[str, Callable[[], Any] | None] = {
            "pool": lambda: pixels(np.array(self.pictures[:pool])),
            "columns": lambda: self.columns,
            "deviations": lambda: np.array(self.known).std(0, dtype=np.float64).ravel(),
        }
        found |= {} if self.columns else {"columns": None, "deviations": None}
        return found | {"vocabulary": (lambda: self.vocabulary) if self.vocabulary else None}
