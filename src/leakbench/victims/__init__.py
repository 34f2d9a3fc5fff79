"""The networks under attack, one file each; a victim's file is found by its name."""

from typing import Any

from torch import nn

from leakbench.parts import part


def build(module: str, shape: tuple[int, int, int], classes: int, parameters: dict[str, Any]) -> nn.Module:
    """Build an untrained victim.

    `shape` is (rows, columns, channels) of its images, which it takes as float [n, channels, rows, columns]
    in [0, 1]; it returns logits [n, classes]. `parameters` are the keywords of the function that the file is
    named after.
    """
    network: nn.Module = part("victims", module)(shape, classes, **parameters)
    return network
