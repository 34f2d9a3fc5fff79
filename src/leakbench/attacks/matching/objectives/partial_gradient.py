"""Partial gradient matching (FedLeak): only some entries of the gradient are compared."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.terms import Entries
from leakbench.base.tensors import Tensors


def partial_gradient(
    *, share: Annotated[float, Field(gt=0, le=1)], choice: Literal["largest", "random"] = "largest"
) -> Entries:
    """Return the choice of a share of each parameter's entries, to which all distances are then restricted.

    FedLeak (Fan et al., USENIX Security 2025, arXiv:2506.08435) matches a part of the gradient. We have not
    read how it chooses the part. Here the part is chosen parameter by parameter and by size, as in a third
    party's program after the paper. The choice by lot is our own and shows what the size is worth.

    share: the share of the entries of each parameter that is compared, above 0 and up to 1; at least one
    entry.
    choice: the entries that are largest in the observed gradient (`largest`), or entries drawn by lot, the
    same for every update (`random`).
    """

    def of(observed: Tensors) -> Tensors:
        return {name: chosen(value, share, choice) for name, value in observed.items()}

    return Entries(of)


def chosen(observed: Tensor, share: float, choice: Literal["largest", "random"]) -> Tensor:
    """Return 1 at a share of each trial's entries and 0 elsewhere, in the shape of `observed`."""
    flat = observed.flatten(1)
    count = max(1, round(share * flat.shape[1]))
    if choice == "largest":
        places = flat.abs().topk(count, 1).indices
    else:
        drawn = torch.randperm(flat.shape[1], generator=torch.Generator().manual_seed(flat.shape[1]))
        places = drawn[:count].to(flat.device).expand(len(flat), -1)
    return torch.zeros_like(flat).scatter_(1, places, 1).view(observed.shape)
