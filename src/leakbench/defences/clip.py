"""Bound the norm of the update (the first half of differential privacy, without its noise)."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.base.tensors import over
from leakbench.defences import Defence, Update


def shortened(update: Update, norm: float) -> Update:
    """Return tensors [rounds, *shape], scaled down to a Euclidean norm of at most `norm` over all of them."""
    length = torch.stack([value.flatten(1).square().sum(1) for value in update.values()]).sum(0).sqrt()
    factor = (norm / length.clamp_min(1e-30)).clamp_max(1)
    return {name: value * over(factor, value) for name, value in update.items()}


def clip(*, norm: Annotated[float, Field(gt=0)]) -> Defence:
    """Scale an update down to a Euclidean norm of at most `norm`.

    norm: the largest norm over all tensors together, above 0. A shorter update is sent as it is.
    """
    return Defence(update=lambda update, rng: shortened(update, norm))
