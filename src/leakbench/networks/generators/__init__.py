"""The attacker's networks that make images, from a partial reconstruction or from a latent and a class."""

from typing import Any

import torch
from torch import nn

from leakbench.base.errors import Unfit
from leakbench.base.parts import part


class OfLatents(nn.Module):
    """A generator that takes latents float [n, latent] in (-1, 1) and classes int64 [n]."""

    latent: int


def of_latents(generator: nn.Module | None, what: str) -> OfLatents:
    """Return the attacker's generator, if it takes latents and classes."""
    if not isinstance(generator, OfLatents):
        raise Unfit(f"attack: {what} needs a generator of a latent and a class (name one under generator)")
    return generator


def build(
    module: str, inputs: tuple[int, ...], shape: tuple[int, int, int], parameters: dict[str, Any]
) -> nn.Module:
    """Build an untrained generator of images, float [n, channels, rows, columns] in [0, 1]."""
    network: nn.Module = part("generators", module)(inputs, shape, **parameters)
    return network.to(memory_format=torch.channels_last)
