"""The networks under attack, one file each, which is found by the victim's name."""

from typing import Any

from torch import nn

from leakbench.base.parts import part


def build(module: str, shape: tuple[int, int, int], classes: int, parameters: dict[str, Any]) -> nn.Module:
    """Build an untrained victim: images [n, channels, rows, columns] in [0, 1] → logits [n, classes]."""
    network: nn.Module = part("victims", module)(shape, classes, **parameters)
    return network
