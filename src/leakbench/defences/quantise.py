"""Share the update in few bits per coordinate."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Defence, Update


def quantise(*, bits: Annotated[int, Field(ge=1, le=16)] = 8) -> Defence:
    """Round every coordinate to the nearest of 2^bits levels, evenly spaced from a tensor's least value to its largest."""

    def protect_update(update: Update, rng: torch.Generator) -> Update:
        def rounded(value: torch.Tensor) -> torch.Tensor:
            low, high = (each.view(-1, *[1] * (value.dim() - 1)) for each in value.flatten(1).aminmax(dim=1))
            step = ((high - low) / (2**bits - 1)).clamp_min(1e-30)
            return low + ((value - low) / step).round() * step

        return {name: rounded(value) for name, value in update.items()}

    return Defence(protect_update=protect_update)
