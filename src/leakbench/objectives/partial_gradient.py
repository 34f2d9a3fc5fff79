"""Partial gradient matching (FedLeak): only some entries of the gradient are compared."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.matching.terms import Entries
from leakbench.tensors import Tensors


def partial_gradient(
    *,
    share: Annotated[float, Field(gt=0, le=1, description="Of each parameter's entries, at least one.")],
    choice: Annotated[
        Literal["largest", "random"], Field(description="By size in the observed gradient, or by lot.")
    ] = "largest",
) -> Entries:
    """Return the choice of a share of each parameter's entries, which all distances then compare alone.

    share: of the entries of each parameter, above 0 and up to 1; at least one entry of each is compared.
    choice: the entries that are largest in the observed gradient, or ones drawn by lot, the same for every
    update. Source: FedLeak (Fan et al., USENIX Security 2025, arXiv:2506.08435) for matching a part of the
    gradient. We have not read how it chooses the part. Ours is parameter by parameter and by size, as a third
    party's program after the paper has it; the lot is ours and shows what the size is worth.
    """

    def of(observed: Tensors) -> Tensors:
        return {name: chosen(value, share, choice) for name, value in observed.items()}

    return Entries(of)


def chosen(observed: Tensor, share: float, choice: Literal["largest", "random"]) -> Tensor:
    """Return 1 at a share of each trial's entries and 0 elsewhere: [trials, *shape] → the same.

    The count is rounded to the next whole number, and is at least 1. Of equal entries any may be chosen.
    """
    flat = observed.flatten(1)
    count = max(1, round(share * flat.shape[1]))
    if choice == "largest":
        places = flat.abs().topk(count, 1).indices
    else:
        drawn = torch.randperm(flat.shape[1], generator=torch.Generator().manual_seed(flat.shape[1]))
        places = drawn[:count].to(flat.device).expand(len(flat), -1)
    return torch.zeros_like(flat).scatter_(1, places, 1).view(observed.shape)
