"""What an attack must not know, and what attacks on one capture share of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from leakbench.artefacts import Facts
from leakbench.metrics.baselines import dataset_mean
from leakbench.scoring.aim import aim_at

T = TypeVar("T")


@dataclass(frozen=True)
class Hidden:
    """The truth's tensors and facts, the data set's arrays, and the victim's file.

    `made` keeps what attacks on one capture share.
    """

    secret: Mapping[str, np.ndarray]
    facts: Facts
    arrays: Mapping[str, np.ndarray]
    victim: Path
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

    def average(self, target: str) -> np.ndarray:
        """Return the mean of what is publicly known of the data set."""
        known = self.arrays.get("train/images", self.pictures)
        if target == "images":
            return dataset_mean(known).transpose(2, 0, 1)
        return aim_at("features", np.array(known[:1000]), self.victim).mean(0)
