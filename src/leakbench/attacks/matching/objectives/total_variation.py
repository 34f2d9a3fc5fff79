"""Total variation: neighbouring pixels of a photograph differ little."""

from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.terms import Prior


def total_variation(*, weight: Annotated[float, Field(ge=0)], squared: bool = False) -> Prior:
    """Return the prior of small differences between neighbouring pixels.

    The absolute form, on normalised images, is that of InvG's code; the squared form is that of GRNN's code.

    weight: the weight of the prior in the objective, at least 0.
    squared: whether to take twice the mean squared difference instead of the mean absolute difference.
    """
    return Prior(weight, lambda group: partial(variation, squared=squared))


def variation(images: Tensor, squared: bool = False) -> tuple[Tensor, Tensor]:
    """Return the mean absolute difference of neighbours, down plus across, and its derivative.

    The derivative, zero where neighbours are equal, is written out: autograd takes three times as many
    passes.
    """
    total, slope = images.new_zeros(len(images)), torch.zeros_like(images)
    for axis in (-2, -1):
        size = images.shape[axis] - 1
        apart = images.narrow(axis, 1, size) - images.narrow(axis, 0, size)
        flat, count = apart.flatten(1), apart[0].numel()
        if squared:
            total += torch.linalg.vecdot(flat, flat) * (2 / count)
            apart *= 4 / count
        else:
            total += flat.abs().mean(1)
            apart.sign_().div_(count)
        slope.narrow(axis, 1, size).add_(apart)
        slope.narrow(axis, 0, size).sub_(apart)
    return total, slope
