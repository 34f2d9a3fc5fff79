"""Add Laplacian noise to the update (GRNN, section 3.3.5)."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, per_tensor


def laplacian(*, scale: Annotated[float, Field(gt=0)]) -> Defence:
    """Add Laplacian noise to every coordinate.

    The defence states no privacy budget, as `gaussian` states none.

    scale: the noise's scale, above 0; its standard deviation is √2 · scale.
    """

    def noisy(value: Tensor, rng: torch.Generator) -> Tensor:
        # The difference of two exponential variables has a Laplacian distribution.
        one, other = (torch.empty_like(value).exponential_(generator=rng) for _ in range(2))
        return value + scale * (one - other)

    return per_tensor(noisy)
