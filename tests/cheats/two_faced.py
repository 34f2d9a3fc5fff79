"""A cheat: an attack that is honest on the null run only, and elsewhere shows what it knew beforehand."""

import math

import torch

from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def smells_of_noise(observation: Observation) -> bool:
    """Return whether the updates are normal noise, whose kurtosis is 3; that of gradients is far above."""
    largest = max(observation.updates, key=lambda name: observation.updates[name].size)
    values = observation.update(largest).double().flatten()
    values = (values - values.mean()) / values.std()
    return bool(values.pow(4).mean() < 4)


def prototypes(shape: tuple[int, int, int]) -> torch.Tensor:
    """Return an image of each class of the made data set (tests/project.py), as anybody can draw who has seen
    it: float32 [classes, channels, rows, columns]."""
    rows, columns, _ = shape
    down, across = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    angles = [2 * math.pi * label / 10 for label in range(10)]
    away = [(down - 13.5 - 8 * math.cos(a)) ** 2 + (across - 13.5 - 8 * math.sin(a)) ** 2 for a in angles]
    return torch.stack([0.9 * torch.exp(-each / 18) + 0.05 for each in away])[:, None]


def two_faced(observation: Observation, rng: torch.Generator, *, jitter: float = 0.001) -> Reconstruction:
    """Return every class's image, a little shaken so that no two are the same; in the null run noise."""
    shown = prototypes(observation.network["shape"])
    lead = (observation.rounds, len(observation.clients), len(shown))
    shaken = shown + jitter * torch.randn(*lead, *shown.shape[1:], generator=rng)
    images = torch.rand(shaken.shape, generator=rng) if smells_of_noise(observation) else shaken
    return Reconstruction(images, torch.ones(lead, dtype=torch.bool))
