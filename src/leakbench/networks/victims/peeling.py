"""The network of Peeling's Table II with the numbers that its authors draw for one of their seeds."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import nn

from leakbench.networks.victims.mlp import mlp

COST = {"weights": "1000 * values / 1e6", "operations": "2 * weights", "layers": 2, "dense": True}

# The neurons of the first layer, and the deviation of their weights.
NEURONS, DEVIATION = 1000, 0.5


def peeling(
    shape: tuple[int, int, int], classes: int, *, seed: Annotated[int, Field(ge=0)] = 55726
) -> nn.Module:
    """Return two dense layers in double precision, without biases at the start, with a ReLU between them.

    The authors' code (SaeedShariati/Gradient-Inversion-via-LT-Codes, commit 82cdbb9) draws from NumPy's
    default generator, neuron by neuron: the magnitudes of its weights from a normal distribution, and then a
    uniform number for each, which is positive where that is below one half. The weights of the last layer
    follow, uniform as Glorot has it. Inputs are in the order rows, columns, channels there.

    seed: one of the authors' seeds.
    """
    rows, columns, channels = shape
    inputs = rows * columns * channels
    rng = np.random.default_rng(seed)
    first = np.empty((NEURONS, inputs))
    for neuron in first:
        magnitude = np.abs(rng.normal(0.0, DEVIATION, inputs))
        neuron[:] = np.where(rng.random(inputs) < 0.5, magnitude, -magnitude)
    end = (6 / (NEURONS + classes)) ** 0.5
    last = rng.uniform(-end, end, (NEURONS, classes))
    network = mlp(shape, classes, hidden=(NEURONS,), initial="glorot", precision="float64")
    dense1, dense2 = (layer for layer in network.modules() if isinstance(layer, nn.Linear))
    ordered = first.reshape(NEURONS, rows, columns, channels).transpose(0, 3, 1, 2).reshape(NEURONS, inputs)
    with torch.no_grad():
        dense1.weight.copy_(torch.from_numpy(ordered))
        dense2.weight.copy_(torch.from_numpy(last.T))
    return network
