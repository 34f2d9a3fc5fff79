"""What the server received from a client, as gradients; and the attacker's noise images."""

import numpy as np
import torch
from torch import Tensor

from leakbench.observations.observation import Observation

NOISE = 64


def local_steps(observation: Observation, batch: int) -> list[slice]:
    """Return the mini-batches of a client's local steps, in order, as slices of its `batch` samples."""
    size = observation.local["batch_size"] or batch
    once = [slice(begin, min(begin + size, batch)) for begin in range(0, batch, size)]
    return once * int(observation.local["epochs"])


def as_gradient(observation: Observation, update: Tensor, batch: int) -> Tensor:
    """Return the mean gradient that an update stands for."""
    if observation.kind == "gradient":
        return update
    return update / (-observation.local["lr"] * len(local_steps(observation, batch)))


def received(observation: Observation, name: str, rounds: Tensor, client: int) -> Tensor:
    """Read the updates of one parameter as the server received them."""
    return torch.from_numpy(np.array(observation.updates[name][rounds.numpy(), client]))


def noise_images(pixels: tuple[int, int, int]) -> Tensor:
    """Return NOISE images of uniform noise in [0, 1], [NOISE, *pixels], the same at each call."""
    return torch.rand(NOISE, *pixels, generator=torch.Generator().manual_seed(0))
