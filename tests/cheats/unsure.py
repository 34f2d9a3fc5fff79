"""A cheat: an attack that says NaN where it is unsure, so that only what went well is left in a mean."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.attacks.fidel import fidel
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


def unsure(
    observation: Observation,
    rng: torch.Generator,
    *,
    says: str = "nan",
    sure: Annotated[int, Field(gt=0)] = 1,
) -> Reconstruction:
    """Return what Fidel does for the first `sure` rounds. Of the others it says `nan`, `made` (NaN from the
    beginning, and not only once the reconstruction is made), or `nothing`, as an honest attack would, or it
    leaves them `out`."""
    found = fidel(observation, rng)
    if says == "nothing":
        found.images[sure:], found.usable[sure:] = 0, False
    if says == "out":
        return found.part(slice(sure))
    if says in ("nan", "made"):
        found.images[sure:] = torch.nan
    return Reconstruction(found.images, found.usable) if says == "made" else found
