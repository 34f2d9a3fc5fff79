"""The weights of a generator that makes images and labels, one generator for each trial."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.errors import Unfit
from leakbench.matching.generator_weights import GeneratorWeights
from leakbench.matching.trials import Group
from leakbench.matching.unknowns import Parameterisation, Unknowns
from leakbench.tensors import Tensors

# Each generator has weights of its own, so that fewer of them fill a cache.
AT_ONCE = 8


def generator(
    *,
    # A spec leaves the default out, so that what was recorded before there was a choice keeps its settings.
    latent: Annotated[int, Field(ge=1, exclude_if=lambda length: length == 128)] = 128,
    collapsed: bool = True,
) -> Parameterisation:
    """Return a parameterisation by the weights of one generator for each trial, drawn trial by trial.

    latent: length of the vector that a generator reads, 1 or more; 128 in GRNN's code, 1,024 in FedKL's.
    collapsed: keep the first layers of a single image as their product with its latent
    (`matching.generator_weights`). It serves optimisers that move every element by itself, as RMSprop and
    Adam do, and not L-BFGS. Source: GRNN. The parameterisation raises Unfit for images that the generator
    cannot make.
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
