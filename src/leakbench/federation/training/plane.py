"""The plane as a network of two numbers classifies it, and some of the points that it learned from."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

STEPS, SHOWN = 61, 250


def flat_data(images: Tensor) -> bool:
    """Return whether images [n, 1, 2, 1] are points in the plane."""
    return tuple(images.shape[1:]) == (1, 2, 1)


def extent(images: Tensor) -> list[float]:
    """Return left, right, bottom and top of a square that holds all points with half a unit around them."""
    points = images.reshape(-1, 2)
    low, high = points.min(0).values - 0.5, points.max(0).values + 0.5
    middle, half = (low + high) / 2, float((high - low).max()) / 2
    return [round(float(middle[axis]) + sign * half, 3) for axis in (0, 1) for sign in (-1, 1)]


@torch.no_grad()
def surface(model: nn.Module, where: Sequence[float]) -> list[list[float]]:
    """Return the probability of the second class at the knots of a grid of STEPS × STEPS."""
    left, right, bottom, top = where
    x, y = torch.linspace(left, right, STEPS), torch.linspace(bottom, top, STEPS)
    knots = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).reshape(-1, 1, 1, 2)
    device = next(model.parameters()).device
    found = model.eval()(knots.to(device)).softmax(1)[:, 1].reshape(STEPS, STEPS)
    return np.round(found.double().cpu().numpy(), 3).tolist()


def sample(images: Tensor, labels: Tensor) -> list[list[float]]:
    pairs = zip(images[:SHOWN].reshape(-1, 2).tolist(), labels[:SHOWN].tolist(), strict=True)
    return [[round(x, 3), round(y, 3), label] for (x, y), label in pairs]
