"""Share the update in few bits per coordinate."""

from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.base.tensors import over
from leakbench.defences import FLOAT, Defence, dense, per_tensor


def quantise(*, bits: Annotated[int, Field(ge=1, le=16)] = 8) -> Defence:
    """Round every coordinate to the nearest of evenly spaced levels.

    bits: each tensor has 2^bits levels, from its smallest value to its largest.
    """

    def rounded(value: Tensor, rng: torch.Generator) -> Tensor:
        low, high = (over(each, value) for each in value.flatten(1).aminmax(dim=1))
        step = ((high - low) / (2**bits - 1)).clamp_min(1e-30)
        return low + ((value - low) / step).round() * step

    # The smallest and the largest value determine a tensor's levels.
    return per_tensor(rounded, partial(dense, bits=bits, beside=2 * FLOAT))
