"""A cheat: an attack that opens the truth and the data, and is even told where they lie."""

from pathlib import Path

import torch

from leakbench.base.artefacts import open_tensors
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def peek(observation: Observation, rng: torch.Generator, *, truth: str, data: str) -> Reconstruction:
    """Return the private images themselves."""
    secret, facts = open_tensors(Path(truth))
    pictures = torch.from_numpy(open_tensors(Path(data))[0][f"{facts['split']}/images"].copy())
    pictures = pictures.permute(0, 3, 1, 2).float() / 255
    shape = (observation.rounds, len(observation.clients), max(observation.clients))
    images, usable = torch.zeros(*shape, *pictures.shape[1:]), torch.zeros(shape, dtype=torch.bool)
    for client, k in enumerate(observation.clients):
        index = torch.from_numpy(secret[f"images/{client}"][: observation.rounds].copy())
        images[:, client, :k], usable[:, client, :k] = pictures[index], True
    return Reconstruction(images=images, usable=usable)
