"""Networks of the attacker that make images: of partial reconstructions, or of a latent and a class."""

from typing import Any

import torch
from torch import nn

from leakbench.parts import part


def build(
    module: str, inputs: tuple[int, ...], shape: tuple[int, int, int], parameters: dict[str, Any]
) -> nn.Module:
    """Build an untrained generator of images, float [n, channels, rows, columns] in [0, 1].

    Its weights lie channels last, which speeds its convolutions up on a CPU.

    `inputs` is (channels, rows, columns) of a partial reconstruction, which it takes as float [n, *inputs],
    or (classes,): then it takes latents float [n, latent] in (-1, 1) and classes int64 [n], and its attribute
    `latent` tells their length. `shape` is (rows, columns, channels) of the victim's image.
    """
    network: nn.Module = part("generators", module)(inputs, shape, **parameters)
    return network.to(memory_format=torch.channels_last)
