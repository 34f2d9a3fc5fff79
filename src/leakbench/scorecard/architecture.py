"""Compares networks as published, layer by layer, with networks as built."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.scorecard.published import LAYER_CELLS


def layer_text(layer: Mapping[str, Any]) -> str:
    """A layer as the fact rule reads it: `layer=dense; size=128; activation=relu`, without empty cells."""
    return "; ".join(f"{key}={layer[key]}" for key in LAYER_CELLS if layer.get(key) not in (None, ""))


def output_side(layers: Sequence[Mapping[str, Any]]) -> int:
    """Side of the square feature map (pixels) after the convolutional part of a network.

    Keras rules: `same` keeps ceil(side / stride) and `valid` gives (side - kernel) // stride + 1;
    transposed, `same` gives side * stride and `valid` (side - 1) * stride + kernel. An unstated padding
    means `valid`, Keras's default.
    """
    side = 0
    for layer in layers:
        name = layer["layer"]
        size = [int(number) for number in re.findall(r"\d+", str(layer.get("size") or ""))]
        stride = int(re.findall(r"\d+", str(layer.get("stride") or "1"))[0])
        same = layer.get("padding") == "same"
        if name == "input":
            side = size[0]
        elif name.startswith("up-sampling"):
            side *= size[0]
        elif name == "maxpool":
            side //= size[0]
        elif name == "conv2d transpose":
            side = side * stride if same else (side - 1) * stride + size[0]
        elif name == "conv2d":
            side = -(-side // stride) if same else (side - size[0]) // stride + 1
        elif name in ("flatten", "dense"):
            break
    return side
