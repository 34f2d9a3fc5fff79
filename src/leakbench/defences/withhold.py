"""Share only a random part of the update (Fidel, section II-B, names such schemes as no protection)."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Defence, Update


def withhold(*, share: Annotated[float, Field(gt=0, le=1)] = 0.5) -> Defence:
    """Keep each coordinate of an update with probability `share`, else send zero; the choice is the client's alone."""

    def protect_update(update: Update, rng: torch.Generator) -> Update:
        return {
            name: value * torch.bernoulli(torch.full_like(value, share), generator=rng)
            for name, value in update.items()
        }

    return Defence(protect_update=protect_update)
