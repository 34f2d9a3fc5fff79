"""The size of a network, counted by torch without any numbers in it: a process of its own that planning asks.

It reads a victim and the shape of an image in JSON from its input, and writes what `costs.Network` holds.
"""

import json
import sys

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from leakbench.catalogue.cell import Spec
from leakbench.networks.victims import build

# The number of logits does not matter for the size of a network of any weight.
CLASSES = 10


def size(victim: Spec, shape: tuple[int, int, int]) -> Spec:
    """Return the millions of operations of one image's forward pass, those of weights, and the layers."""
    rows, columns, channels = shape
    with torch.device("meta"):
        network = build(victim["module"], shape, CLASSES, victim["parameters"]).eval()
        image = torch.zeros(1, channels, rows, columns)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(image)
    layers = [it for it in network.modules() if any(w.dim() > 1 for w in it.parameters(recurse=False))]
    return {
        "operations": counter.get_total_flops() / 1e6,
        "weights": sum(value.numel() for value in network.parameters()) / 1e6,
        "layers": len(layers),
        "dense": not any(isinstance(layer, nn.modules.conv._ConvNd) for layer in layers),
    }


if __name__ == "__main__":
    print(json.dumps(size(*json.load(sys.stdin))))
