"""A network behind an imprint block, which a malicious server adds in front of it."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from leakbench.networks.layers import sequential
from leakbench.networks.victims.lenet_dlg import lenet_dlg

# Its size (`catalogue.costs.Network`): the LeNet's, the block's and the convolution's.
COST = {"weights": "0.1 + (1 + max(clients, 1)) * values * bins / 1e6",
        "operations": "1.5 * area + ((1 + max(clients, 1)) * 2 * bins + 18 * clients * channels)"
        " * values / 1e6", "layers": 6}  # fmt: skip


def imprinted(
    shape: tuple[int, int, int],
    classes: int,
    *,
    bins: Annotated[int, Field(gt=1)] = 256,
    clients: Annotated[int, Field(ge=0)] = 0,
    norm: Literal["none", "batch"] = "none",
    bounded: bool = False,
) -> nn.Module:
    """Return DLG's LeNet behind a dense layer, ReLUs and a dense layer back to the sample's shape.

    The second dense layer has equal initial weights, so that a sample adds the same to each neuron that it
    opens. Source: Robbing the Fed (Fowl et al., ICLR 2022), section 4; the convolution and the bounds are
    LOKI's (Zhao et al., S&P 2024).

    bins: the neurons of the block's first layer.
    clients: the number of clients that a 3×3 convolution before the block keeps apart; 0 means no
    convolution. It has no bias, and one kernel for each channel of each client's samples.
    norm: `batch` adds a batch norm behind the LeNet's first convolution, which normalises by its own
    statistics.
    bounded: whether the block's first neurons are cut off at 1 as well as at 0. A neuron then passes a
    gradient on only between 0 and 1, and each neuron can have a bin of its own.
    """
    rows, columns, channels = shape
    inputs = math.prod(shape)
    back = nn.Linear(bins, inputs)
    with torch.no_grad():
        back.weight.fill_(1 / bins)
    convolution = (
        {"convolution": nn.Conv2d(channels, channels * clients, 3, padding=1, bias=False)} if clients else {}
    )
    block = {
        "flatten": nn.Flatten(),
        "dense1": nn.Linear(inputs * max(clients, 1), bins),
        "activation1": nn.Hardtanh(0, 1) if bounded else nn.ReLU(),
        "dense2": back,
        "unflatten": nn.Unflatten(1, (channels, rows, columns)),
    }
    return sequential(**convolution, **block, network=lenet_dlg(shape, classes, norm=norm))
