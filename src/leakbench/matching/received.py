"""What the server received of a client, as gradients; and the attacker's noise images."""

import numpy as np
import torch
from torch import Tensor

from leakbench.attacks.observation import Observation

NOISE = 64


def local_steps(observation: Observation, batch: int) -> list[slice]:
    """Return the mini-batches that a client's local steps took, in order, as slices of its samples."""
    size = observation.local["batch_size"] or batch
    once = [slice(begin, min(begin + size, batch)) for begin in range(0, batch, size)]
    return once * int(observation.local["epochs"])


def as_gradient(observation: Observation, update: Tensor, batch: int) -> Tensor:
    """Return the mean gradient that an update stands for: itself, or minus the update over the learning rate
    and steps.

    Source: AGIC, Eqn 4; the number of steps makes the sum over mini-batches the mean that one large batch
    would have.
    """
    if observation.kind == "gradient":
        return update
    return update / (-observation.local["lr"] * len(local_steps(observation, batch)))


def received(observation: Observation, name: str, rounds: Tensor, client: int) -> Tensor:
    """Read a parameter's updates of some rounds [n] of a client, as the server received them: [n, *shape]."""
    return torch.from_numpy(np.array(observation.updates[name][rounds.numpy(), client]))


def noise_images(pixels: tuple[int, int, int]) -> Tensor:
    """Return NOISE images of uniform noise, always the same: [NOISE, *pixels] in [0, 1]."""
    return torch.rand(NOISE, *pixels, generator=torch.Generator().manual_seed(0))
