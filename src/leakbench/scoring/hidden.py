"""What an attack must not know, and what attacks on one capture share of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.artefacts import Facts
from leakbench.metrics.baselines import DATASET_MEAN, TYPICAL, dataset_mean, typical_record
from leakbench.pixels import pixels
from leakbench.records import Column
from leakbench.scoring.aim import aim_at

T = TypeVar("T")


@dataclass(frozen=True)
class Hidden:
    """The truth's tensors and facts, the data set's arrays, the victim's file, and of records their columns.

    `made` keeps what attacks on one capture share.
    """

    secret: Mapping[str, np.ndarray]
    facts: Facts
    arrays: Mapping[str, np.ndarray]
    victim: Path
    columns: Sequence[Column] = ()
    made: dict[tuple[object, ...], Any] = field(default_factory=dict)

    def once(self, make: Callable[[], T], *key: object) -> T:
        """Return what `make` makes, made once for each key."""
        if key not in self.made:
            self.made[key] = make()
        found: T = self.made[key]
        return found

    @cached_property
    def pictures(self) -> np.ndarray:
        """All images uint8 [n, rows, columns, channels] of the split that the private ones are of."""
        return self.arrays[f"{self.facts['split']}/images"]

    def aims(self, client: int, target: str) -> np.ndarray:
        """Return what an attack on a client aims at, [rounds, k, …]."""
        index = self.secret[f"images/{client}"]
        aim = aim_at(target, self.pictures[index.reshape(-1)], self.victim)
        return aim.reshape(*index.shape, *aim.shape[1:])

    @property
    def known(self) -> np.ndarray:
        """What is publicly known of the data set, as it is stored."""
        return self.arrays.get("train/images", self.pictures)

    def blind(self, target: str) -> dict[str, np.ndarray]:
        """Return null baseline → what is guessed for every private image from what is publicly known."""
        if target != "images":
            return {DATASET_MEAN: aim_at("features", np.array(self.known[:1000]), self.victim).mean(0)}
        out = {DATASET_MEAN: dataset_mean(self.known).transpose(2, 0, 1)}
        if self.columns:
            records = np.array(self.known).reshape(len(self.known), -1)
            out[TYPICAL] = typical_record(records, self.columns).reshape(out[DATASET_MEAN].shape)
        return out

    def needs(self, pool: int) -> dict[str, Callable[[], Any] | None]:
        """Return what metrics may need of the data set, by name: the first `pool` images, and of records
        columns and deviations; none of what is not of records."""
        found: dict[str, Callable[[], Any] | None] = {
            "pool": lambda: pixels(np.array(self.pictures[:pool])),
            "columns": lambda: self.columns,
            "deviations": lambda: np.array(self.known).std(0, dtype=np.float64).ravel(),
        }
        return found if self.columns else found | {"columns": None, "deviations": None}
