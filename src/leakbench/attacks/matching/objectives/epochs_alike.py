"""DLF's order-invariant prior: every local epoch trains on the same images, in whatever order."""

from collections.abc import Callable
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import conv2d

from leakbench.attacks.matching.terms import Prior, differentiated
from leakbench.attacks.matching.trials import Group

# The random convolution: the number of its filters, their side, and the seed that they are drawn from.
FILTERS, SIDE, SEED = 96, 3, 0
COST = {"made": "80 if of == 'filters' and updates == 'reshuffled' else 0"}


def epochs_alike(
    *,
    weight: Annotated[float, Field(ge=0)],
    of: Literal["pixels", "filters"] = "pixels",
    by: Literal["mean", "largest"] = "mean",
) -> Prior:
    """Return the prior of unknown images that are alike in all local epochs, whatever their order in each.

    The value is the squared difference of two epochs, averaged over all places and over all pairs of epochs,
    in both orders and each with itself. For a single epoch it is zero. The prior is that of DLF's code, whose
    scripts use `l2_mean` (pixels, mean) on FEMNIST and `l2_max_conv` (filters, largest) on CIFAR-100.

    weight: the weight of the prior in the objective, at least 0.
    of: what is compared: the normalised pixels (`pixels`), or the outputs of 96 random filters of 3×3 pixels
    (`filters`).
    by: what is taken over an epoch's images at each place: their mean (`mean`) or the largest value
    (`largest`).
    """

    def made(group: Group) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def value(images: Tensor) -> Tensor:
            seen = filtered(images) if of == "filters" else images
            epochs = seen.unflatten(1, (group.epochs, -1))
            whole = epochs.mean(2) if by == "mean" else epochs.amax(2)
            # The mean over all pairs is twice the variance.
            return 2 * (whole - whole.mean(1, keepdim=True)).square().flatten(1).mean(1)

        return differentiated(value) if group.epochs > 1 else _nothing

    return Prior(weight, made)


def filtered(images: Tensor) -> Tensor:
    """Return the outputs of random filters on images [trials, batch, channels, rows, columns]."""
    channels = images.shape[2]
    rng = torch.Generator().manual_seed(SEED)
    drawn = torch.randn(FILTERS, channels, SIDE, SIDE, generator=rng) / (channels * SIDE * SIDE) ** 0.5
    made = conv2d(images.flatten(0, 1), drawn.to(images), padding=SIDE // 2)
    return made.unflatten(0, images.shape[:2])


def _nothing(images: Tensor) -> tuple[Tensor, Tensor]:
    return images.new_zeros(len(images)), torch.zeros_like(images)
