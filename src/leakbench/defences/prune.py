"""Share only the largest coordinates of the update (gradient compression, which DLG proposes)."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, per_tensor, sparse


def prune(*, share: Annotated[float, Field(gt=0, le=1)]) -> Defence:
    """Send the largest coordinates of every tensor by magnitude, and zero for the rest.

    share: share of each tensor's coordinates that is kept, in (0, 1]. At least one coordinate is kept.
    """

    def largest(value: Tensor, rng: torch.Generator) -> Tensor:
        flat = value.flatten(1)
        kept = flat.abs().topk(max(1, round(share * flat.shape[1])), 1).indices
        return torch.zeros_like(flat).scatter(1, kept, flat.gather(1, kept)).view_as(value)

    return per_tensor(largest, sparse)
