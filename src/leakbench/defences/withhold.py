"""Share only a random part of the update (Fidel, section II-B, names such schemes as no protection)."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Defence, per_tensor, sparse


def withhold(*, share: Annotated[float, Field(gt=0, le=1)] = 0.5) -> Defence:
    """Send each coordinate of an update with probability `share`, and zero in place of the others.

    share: the probability, in (0, 1]. Only the client knows which coordinates it chose.
    """
    return per_tensor(
        lambda value, rng: value * torch.bernoulli(torch.full_like(value, share), generator=rng), sparse
    )
