"""The truth of a capture, which an attack must not know, and what attacks on one capture share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.base.artefacts import Facts
from leakbench.base.pixels import pixels
from leakbench.datasets.columns import Column
from leakbench.metrics.baselines import DATASET_MEAN, TYPICAL, dataset_mean, typical_record
from leakbench.metrics.scoring.aim import aim_at

T = TypeVar("T")


@dataclass(frozen=True)
class Hidden:
    """What is hidden from the attacker, and what is made of it once for all attacks on one capture.

    secret: the tensors of the truth.
    facts: the facts of the truth.
    arrays: the arrays of the data set.
    victim: the victim's file.
    columns: of tabular records, what their values mean.
    made: key → what attacks on one capture share.
    """

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
        out = {DATASET_MEAN: dataset_mean(self.known).transpose(2, 0, 1)}
        if self.columns:
            records = np.array(self.known).reshape(len(self.known), -1)
            out[TYPICAL] = typical_record(records, self.columns).reshape(out[DATASET_MEAN].shape)
        return out

    def needs(self, pool: int) -> dict[str, Callable[[], Any] | None]:
        """Return what metrics may need of the data set, name → the function that makes it."""
        found: dict[str, Callable[[], Any] | None] = {
            "pool": lambda: pixels(np.array(self.pictures[:pool])),
            "columns": lambda: self.columns,
            "deviations": lambda: np.array(self.known).std(0, dtype=np.float64).ravel(),
        }
        return found if self.columns else found | {"columns": None, "deviations": None}
