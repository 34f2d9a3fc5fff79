"""Add Laplacian noise to the update (GRNN, section 3.3.5)."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Defence, Update


def laplacian(*, scale: Annotated[float, Field(gt=0)]) -> Defence:
    """Add Laplacian noise of this scale (deviation √2 · scale) to every coordinate; no privacy budget, as in `gaussian`."""

    def protect_update(update: Update, rng: torch.Generator) -> Update:
        def noise(value: torch.Tensor) -> torch.Tensor:
            # The difference of two exponential variables is Laplacian.
            one, other = (torch.empty_like(value).exponential_(generator=rng) for _ in range(2))
            return scale * (one - other)

        return {name: value + noise(value) for name, value in update.items()}

    return Defence(protect_update=protect_update)
