"""The weights of a generator that makes images and labels, one generator for each trial."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.generator_weights import GeneratorWeights
from leakbench.attacks.matching.parameterisation import Parameterisation, Unknowns
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors

# Each generator has weights of its own, so few of them already fill a cache.
AT_ONCE = 8

COST = {"made": 90}


def generator(
    *,
    # A spec leaves the default out, so that runs recorded before this parameter existed keep their settings.
    latent: Annotated[int, Field(ge=1, exclude_if=lambda length: length == 128)] = 128,
    collapsed: bool = True,
) -> Parameterisation:
    """Return a parameterisation by the weights of one generator for each trial, drawn trial by trial (GRNN).

    latent: the length of the vector that a generator reads, at least 1; 128 in GRNN's code, 1,024 in FedKL's.
    collapsed: whether the first layers of a single image are kept as their product with its latent
    (`matching.generator_weights`). This suits optimisers that move every element by itself, such as RMSprop
    and Adam. It does not suit L-BFGS.

    The parameterisation raises Unfit for images that the generator cannot make.
    """

    def made(group: Group, rng: torch.Generator) -> Unknowns:
        channels, side, columns = group.pixels
        if side != columns or side < 8 or side & (side - 1):
            raise Unfit(
                "attack: unknowns: a generator doubles 4×4 up to squares of 8, 16, 32 … pixels, and the "
                f"images have {side}×{columns} (choose a data set that is scaled so, as mnist-32)"
            )
        weights = GeneratorWeights(
            side, channels, group.batch, group.classes, latent=latent, collapsed=collapsed
        )
        start, latents = weights.draw(rng, group.trials)
        latents = latents.to(group.device)
        known = group.labels is not None

        def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
            z = latents[rows]
            images = (weights.images(unknowns, z) - group.mean) / group.deviation
            return {"images": images} if known else {"images": images, "labels": weights.labels(unknowns, z)}

        wanted = {n: v.to(group.device) for n, v in start.items() if not (known and n.startswith("label"))}
        return Unknowns(wanted, dummies, AT_ONCE)

    return made
