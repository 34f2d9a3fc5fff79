"""An inverter: dense layers from an update to its images, fitted to pairs of the attacker's own."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from leakbench.base.progress import track
from leakbench.base.resume import packed, resume, save, unpack
from leakbench.base.seeds import stream

# After the share LATE of the epochs the learning rate falls to the share SLOWER.
LATE, SLOWER = 0.75, 0.1
# The deviation that standardises an input is at least this share of the deviation of all inputs together.
LEAST = 0.01
# The largest possible error of images in [0, 1]. An error that is NaN or infinite counts as this.
WORST = 1.0


@dataclass(frozen=True)
class Pairs:
    """Images, float [n, batch, values] in [0, 1], and a function from numbers [few] to their updates."""

    images: Tensor
    updates: Callable[[Tensor, torch.Generator], Tensor]

    def __len__(self) -> int:
        return len(self.images)


class Fitting(NamedTuple):
    """How an inverter is fitted."""

    hidden: int
    epochs: int
    rate: float
    batch: int


class Inverter(nn.Module):
    """Dense layers and a sigmoid, [n, inputs] → [n, batch, values], which begin at the mean image."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, updates: Tensor, images: Tensor, hidden: int) -> None:
        super().__init__()
        self.register_buffer("mean", updates.mean(0))
        spread = updates.std(0, unbiased=False)
        floor = max(LEAST * float(updates.std(unbiased=False)), 1e-30)
        self.register_buffer("deviation", spread.clamp_min(floor))
        self.batch = images.shape[1]
        last = nn.Linear(hidden, images[0].numel())
        self.layers = nn.Sequential(
            nn.Linear(updates.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), last
        )
        with torch.no_grad():
            image = images.mean((0, 1)).clamp(0.001, 0.999).logit()
            last.bias.copy_(image.repeat(self.batch))

    def forward(self, updates: Tensor) -> Tensor:
        made = self.layers((updates - self.mean) / self.deviation).sigmoid()
        return made.unflatten(1, (self.batch, -1))


def assigned(made: Tensor, wanted: Tensor) -> Tensor:
    """Return the images `wanted` [n, batch, values], those of each update in the order nearest to `made`."""
    if made.shape[1] == 1:
        return wanted
    with torch.no_grad():
        costs = (made[:, :, None] - wanted[:, None]).square().mean(-1).cpu().numpy()
    order = torch.from_numpy(np.stack([linear_sum_assignment(cost)[1] for cost in costs]))
    return wanted[torch.arange(len(wanted))[:, None], order]


@torch.no_grad()
def error(inverter: Inverter, updates: Tensor, images: Tensor) -> float:
    """Return the mean squared error over pixels, with the images of each update in their best order."""
    total = 0.0
    for x, y in zip(updates.split(256), images.split(256), strict=True):
        made = inverter(x)
        total += float((made - assigned(made, y)).square().sum(dtype=torch.float64))
    return total / images.numel()


def fitted(
    pairs: Pairs, held: Pairs, fitting: Fitting, seed: int, device: str = "cpu", scratch: Path | None = None,
    label: str = "inverter",
) -> tuple[Inverter, list[float]]:  # fmt: skip
    """Return the inverter of the epoch with the least error on `held`, and the error after each epoch."""

    def drawn(name: str, epoch: int) -> torch.Generator:
        return torch.Generator().manual_seed(stream(name, seed, epoch))

    every = torch.arange(len(held))
    judged, truth = held.updates(every, drawn("held", 0)).to(device), held.images.to(device)
    first = torch.randperm(len(pairs), generator=drawn("first", 0))[:1000]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream("weights", seed))
        inverter = Inverter(pairs.updates(first, drawn("first", 1)), pairs.images, fitting.hidden)
    inverter.to(device)
    optimiser = torch.optim.Adam(inverter.parameters(), lr=fitting.rate, fused=True)
    best, errors = copy.deepcopy(inverter.state_dict()), list[float]()

    def keep() -> None:
        if scratch is not None:
            groups = {"now": inverter.state_dict(), "best": best, "adam": packed(optimiser)}
            save(scratch, groups, {"errors": errors})

    if scratch is not None and scratch.is_file():
        groups, facts = resume(scratch)
        inverter.load_state_dict(groups["now"])
        unpack(optimiser, inverter, groups.get("adam", {}))
        best, errors = groups["best"], facts["errors"]
    for epoch, due in track(range(len(errors), fitting.epochs), label):
        if due:
            keep()
        for group in optimiser.param_groups:
            group["lr"] = fitting.rate * (SLOWER if epoch >= LATE * fitting.epochs else 1)
        chance = drawn("epoch", epoch)
        for rows in torch.randperm(len(pairs), generator=chance).split(fitting.batch):
            made = inverter(pairs.updates(rows, chance).to(device))
            optimiser.zero_grad()
            (made - assigned(made, pairs.images[rows].to(device))).square().mean().backward()
            optimiser.step()
        found = error(inverter, judged, truth)
        errors.append(found if math.isfinite(found) else WORST)
        if errors[-1] <= min(errors):
            best = copy.deepcopy(inverter.state_dict())
    keep()
    inverter.load_state_dict(best)
    return inverter.cpu().eval(), errors
