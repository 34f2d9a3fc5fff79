"""Networks of the attacker, trained on auxiliary images, that turn partial reconstructions into images."""

from typing import Any

import torch
from torch import nn

from leakbench.parts import part


def build(
    module: str, features: tuple[int, int, int], shape: tuple[int, int, int], parameters: dict[str, Any]
) -> nn.Module:
    """Build an untrained generator: float [n, *features] → images float [n, channels, rows, columns] in [0, 1].

    Its weights lie channels last, which speeds its convolutions up on a CPU.

    `features` is (channels, rows, columns) of a partial reconstruction, `shape` (rows, columns, channels) of the image.
    """
    network: nn.Module = part("generators", module)(features, shape, **parameters)
    return network.to(memory_format=torch.channels_last)
