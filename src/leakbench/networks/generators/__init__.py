"""The attacker's networks that make images, from a partial reconstruction or from a latent and a class."""

from typing import Any

import torch
from torch import nn

from leakbench.base.errors import Unfit
from leakbench.base.parts import part


class OfLatents(nn.Module):
    """A generator that takes latents float [n, latent] in (-1, 1) and classes int64 [n].

    latent: the length of the latents.
    """

    latent: int


def of_latents(generator: nn.Module | None, what: str) -> OfLatents:
    """Return the attacker's generator, if it takes latents and classes.

    generator: the generator, if there is one.
    what: what needs it, for the message.

    Raises Unfit for another generator, and for none.
    """
    if not isinstance(generator, OfLatents):
        raise Unfit(f"attack: {what} needs a generator of a latent and a class (name one under generator)")
    return generator


def build(
    module: str, inputs: tuple[int, ...], shape: tuple[int, int, int], parameters: dict[str, Any]
) -> nn.Module:
    """Build an untrained generator of images, float [n, channels, rows, columns] in [0, 1].

    Its weights lie channels last, which speeds up its convolutions on a CPU.

    module: the file's name.
    inputs: (channels, rows, columns) of a partial reconstruction, which the generator takes as float [n,
    *inputs]; or (classes,). With (classes,) the generator is one `OfLatents`.
    shape: (rows, columns, channels) of the victim's image.
    parameters: keyword arguments of the function that the file is named after.
    """
    network: nn.Module = part("generators", module)(inputs, shape, **parameters)
    return network.to(memory_format=torch.channels_last)
