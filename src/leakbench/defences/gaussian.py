"""Add normal noise to the update (GRNN, section 3.3.5)."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Defence, per_tensor


def gaussian(*, scale: Annotated[float, Field(gt=0)]) -> Defence:
    """Add normal noise to every coordinate.

    The defence bounds no norm, so it states no privacy budget.

    scale: the noise's standard deviation, above 0.
    """
    return per_tensor(lambda value, rng: value + scale * torch.randn(value.shape, generator=rng))
