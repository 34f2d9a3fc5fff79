"""A check of our own claims that no expression can make: in how many trainings a lock closes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from leakbench.metrics.interval import interval
from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.quantity import Measured, NotMeasured

# Experiment → its clients. Each has a lock of its own.
LOCKED = {"thesis-table-5-1-lenet-centralised": [0], "thesis-table-5-1-lenet-federated": [0, 1, 2]}
# One answer for all images is right on 0.11 of them, and a network behind an open lock on more than 0.95.
CLOSED = 0.2


def closing(evidence: Evidence, row: Mapping[str, str]) -> Measured:
    """Return the share of trainings in which a client's lock closes. Trainings of one seed are one trial."""
    found: list[tuple[str, float]] = []
    leaves: frozenset[Any] = frozenset()
    for experiment, clients in LOCKED.items():
        own = [evidence.at(experiment=experiment, client=client, key="own") for client in clients]
        leaves = leaves.union(*(each.leaves for each in own))
        kept = [each.trials.values for each in own if each.trials]
        if len(kept) < len(clients):
            raise NotMeasured(f"the single trainings of {experiment} were not kept")
        found += [(seed, float(min(of[seed] for of in kept) <= CLOSED)) for seed in kept[0]]
    seeds, closed = map(np.array, zip(*found, strict=True))
    low, high = interval(closed, seeds)
    count = len(set(seeds))
    return Measured(
        float(closed.mean()), low, high, n=len(closed), independent=count, networks=count, leaves=leaves
    )
