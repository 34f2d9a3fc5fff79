"""The price of a defence in accuracy: the accuracy of a federation's model on images that no client holds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from leakbench.base.pixels import pixels

BATCH = 500


def held_out(federation: Mapping[str, Any], count: int) -> np.ndarray:
    """Return the places of the test images on which the model is measured, int64."""
    private = federation["private"]
    index = np.arange(count)
    if private["split"] == "test":
        index = np.delete(index, np.s_[private["start"] : private["stop"]])
    return index[: federation["evaluate"]]


@torch.no_grad()
def accuracy(model: nn.Module, weights: dict[str, Tensor], images: Tensor, labels: Tensor) -> float:
    """Return the share of images whose largest logit is that of their label, in [0, 1]."""
    right = 0
    for start in range(0, len(images), BATCH):
        x = pixels(images[start : start + BATCH])
        found = functional_call(model, weights, (x,)).argmax(1)
        right += int((found == labels[start : start + BATCH]).sum())
    return right / len(images)
