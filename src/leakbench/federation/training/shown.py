"""What a study shows beside its numbers: words that a network reads, or a plane as it classifies it."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.base.artefacts import Facts
from leakbench.federation.training.batches import to_size
from leakbench.federation.training.sets import Examined
from leakbench.networks.tasks.recognition import read

# The number of words of each test set (thesis, Table 4.2), of knots of each side, and of points.
WORDS, STEPS, POINTS = 6, 61, 250


@torch.no_grad()
def examples(model: nn.Module, tests: Mapping[str, Examined], size: int | None) -> Facts:
    """Return words of each test set that the published rule counts: codes, readings and pictures."""
    device, found = next(model.parameters()).device, {}
    for name, test in tests.items():
        chosen = torch.arange(len(test.labels)) if test.counted is None else test.counted.nonzero()[:, 0]
        images, labels = (x[chosen[:WORDS]] for x in (test.images, test.labels))
        if len(images):
            found[name] = {
                "words": labels.tolist(),
                "read": read(model.eval()(to_size(images.to(device), size))).tolist(),
                "pictures": images.float().mean(3).round().byte().tolist(),
            }
    return found


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
    pairs = zip(images[:POINTS].reshape(-1, 2).tolist(), labels[:POINTS].tolist(), strict=True)
    return [[round(x, 3), round(y, 3), label] for (x, y), label in pairs]
