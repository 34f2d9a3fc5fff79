"""The attacker's networks that make images, from a partial reconstruction or from a latent and a class."""

from typing import Any

import torch
from torch import nn

from leakbench.parts import part


def build(
    module: str, inputs: tuple[int, ...], shape: tuple[int, int, int], parameters: dict[str, Any]
) -> nn.Module:
    """Build an untrained generator of images, float [n, channels, rows, columns] in [0, 1].

    Its weights lie channels last, which speeds up its convolutions on a CPU.

    module: the file's name.
    inputs: (channels, rows, columns) of a partial reconstruction, which the generator takes as float [n,
    *inputs]; or (classes,). With (classes,) the generator takes latents float [n, latent] in (-1, 1) and
    classes int64 [n], and its attribute `latent` is their length.
    shape: (rows, columns, channels) of the victim's image.
    parameters: keyword arguments of the function that the file is named after.
    """
    network: nn.Module = part("generators", module)(inputs, shape, **parameters)
    return network.to(memory_format=torch.channels_last)
