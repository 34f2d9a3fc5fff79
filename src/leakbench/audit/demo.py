"""A client for a first look: scikit-image's own pictures, and a network that tells which are faces."""

from importlib.resources import files

import numpy as np
import torch
from torch import nn

# Of the 200 pictures of 25 × 25 pixels, half are faces.
FACES, EDGE, NEURONS = 100, 25, 1000


def client() -> tuple[nn.Module, nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Return an untrained network, its loss, and 200 pictures with labels, in an order that never changes."""
    with (files("skimage") / "data" / "lfw_subset.npy").open("rb") as file:
        pictures = torch.from_numpy(np.load(file)).float().clamp(0, 1)
    labels = (torch.arange(len(pictures)) < FACES).long()
    rng = torch.Generator().manual_seed(0)
    order = torch.randperm(len(pictures), generator=rng)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(EDGE * EDGE, NEURONS), nn.ReLU(), nn.Linear(NEURONS, 2)
        )
    return network, nn.CrossEntropyLoss(), (pictures[order], labels[order])
