"""CMA-ES of many independent trials at once, one evolution each, as GGL uses it."""

from functools import partial
from typing import Annotated

import numpy as np
import torch
from cmaes import CMA
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate, Make
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors

# What does not go with it in one attack (`catalogue.sections.check_fit`).
EXCLUDES = {
    "": (
        "parameters.updates: *", "epochs: joint", "objective: wasserstein *",
        "objective: * (Entries)", "objective: * (Penalty)",
    ),
}  # fmt: skip

# The loss that stands for a member without a finite one: it sorts behind every other.
WORST = float(np.finfo(np.float64).max)
COST = {"candidates": "population"}


def cma_es(
    *, sigma: Annotated[float, Field(gt=0)] = 1.0, population: Annotated[int, Field(gt=1)] = 50
) -> Make:
    """Return the evolution strategy with adapted covariance, which needs no gradients of the unknowns.

    It is that of Hansen 2016 (the library `cmaes`), as GGL's code uses it.

    sigma: the first standard deviation of a population, above 0, in units of the unknowns.
    population: the number of members of a population, at least 2. An iteration evaluates all of them.
    """
    return partial(Evolution, sigma, population)


class Evolution:
    """One evolution for each trial, with one population at a step.

    The first mean is where the trial starts, and the unknowns are the best member so far. An evolution's
    chance is seeded by its start, so that the start and all losses are the state: a resumed run replays its
    evolutions from them.
    """

    copies = 1

    def __init__(self, sigma: float, population: int, rounds: int) -> None:
        self.sigma, self.population, self.rounds = sigma, population, rounds
        self.state: Tensors = {}
        self._running: dict[bytes, CMA] = {}

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Ask each trial for its members, tell it their losses, and return the lowest losses [trials] so far.

        `evaluate` takes unknowns [trials, population, …]. A trial without any finite loss returns NaN and
        does not move.
        """
        ((name, value),) = unknowns.items()
        if not self.state:
            self.state = {
                "start": value.flatten(1).double().cpu().clone(),
                "told": torch.full((len(value), self.rounds, self.population), WORST, dtype=torch.float64),
                "best": torch.full((len(value),), torch.inf, dtype=torch.float64, device=value.device),
            }
        evolutions = [self._evolution(row, iteration) for row in range(len(value))]
        asked = np.stack([self._asked(evolution) for evolution in evolutions])
        members = torch.from_numpy(asked).to(value).unflatten(2, value.shape[1:])
        losses = torch.nan_to_num(evaluate({name: members})[0].double(), nan=torch.inf)
        told, best = losses.cpu().clamp_max(WORST), self.state["best"]
        self.state["told"][:, iteration] = told
        for evolution, x, y in zip(evolutions, asked, told.numpy(), strict=True):
            evolution.tell(list(zip(x, y.tolist(), strict=True)))
        lowest, place = losses.min(1)
        better = (lowest < best).nonzero()[:, 0]
        value[better], best[better] = members[better, place[better]], lowest[better]
        return torch.where(lowest.isfinite(), best, torch.nan)

    def _asked(self, evolution: CMA) -> np.ndarray:
        return np.stack([evolution.ask() for _ in range(self.population)])

    def _evolution(self, row: int, iteration: int) -> CMA:
        """Return a trial's evolution after `iteration` rounds; replay it if this process does not hold it."""
        start = self.state["start"][row].numpy()
        key = start.tobytes()
        if key not in self._running or self._running[key].generation != iteration:
            seed = stream("cma-es", key.hex()) % 2**32
            again = CMA(mean=start.copy(), sigma=self.sigma, population_size=self.population, seed=seed)
            for told in self.state["told"][row, :iteration].tolist():
                again.tell(list(zip(self._asked(again), told, strict=True)))
            self._running[key] = again
        return self._running[key]
