"""A network behind an imprint block: what a malicious server adds in front of it."""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from leakbench.victims.layers import sequential
from leakbench.victims.lenet_dlg import lenet_dlg


def imprinted(
    shape: tuple[int, int, int], classes: int, *, bins: Annotated[int, Field(gt=1)] = 256
) -> nn.Module:
    """Put a dense layer, ReLUs and a dense layer back to the sample's shape in front of DLG's LeNet.

    bins: the number of neurons of the block. The second layer's initial weights are equal, so that a sample
    adds the same to each neuron that it opens. Source: Robbing the Fed (Fowl et al., ICLR 2022), section 4.
    """
    rows, columns, channels = shape
    inputs = math.prod(shape)
    back = nn.Linear(bins, inputs)
    with torch.no_grad():
        back.weight.fill_(1 / bins)
    block = {
        "flatten": nn.Flatten(),
        "dense1": nn.Linear(inputs, bins),
        "activation1": nn.ReLU(),
        "dense2": back,
        "unflatten": nn.Unflatten(1, (channels, rows, columns)),
    }
    return sequential(**block, network=lenet_dlg(shape, classes))
