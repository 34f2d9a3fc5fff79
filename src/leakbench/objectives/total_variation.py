"""Total variation: neighbouring pixels of a photograph differ little."""

from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.matching.terms import Prior


def total_variation(*, weight: Annotated[float, Field(ge=0)], squared: bool = False) -> Prior:
    """Return the prior of small differences between neighbouring pixels.

    weight: of the prior in the objective, at least 0. squared: twice the mean squared difference instead of
    the mean absolute one. Source: the codes of InvG (absolute, on normalised images) and of GRNN (squared).
    """
    return Prior(weight, lambda group: partial(variation, squared=squared))


def variation(images: Tensor, squared: bool = False) -> tuple[Tensor, Tensor]:
    """Return the mean absolute difference of neighbours, down plus across, and its derivative.

    images: [trials, …, rows, columns]. squared: twice the mean squared difference instead. Returns [trials]
    and a tensor of the images' shape. The derivative is written out, since the tape's takes three times as
    many passes; where neighbours are equal it is zero.
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
