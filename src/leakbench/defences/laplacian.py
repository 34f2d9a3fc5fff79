"""Add Laplacian noise to the update (GRNN, section 3.3.5)."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, per_tensor


def laplacian(*, scale: Annotated[float, Field(gt=0)]) -> Defence:
    """Add Laplacian noise of this scale (deviation √2 · scale) to every coordinate; no privacy budget, as in
    `gaussian`."""

    def noisy(value: Tensor, rng: torch.Generator) -> Tensor:
        # The difference of two exponential variables is Laplacian.
        one, other = (torch.empty_like(value).exponential_(generator=rng) for _ in range(2))
        return value + scale * (one - other)

    return per_tensor(noisy)
