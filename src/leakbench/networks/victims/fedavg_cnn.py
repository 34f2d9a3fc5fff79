"""The small convolutional network of the attacks on federated averaging, SME and DLF."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.layers import normalised, sequential

# Its size (`catalogue.costs.Network`): of its second convolution and first dense layer.
COST = {"operations": "area * (512 * 18 * width * width + 56_000 * width + 256 * width * hidden) / 1e6",
        "weights": "(18 * width * width + 128 * area * width * hidden) / 1e6", "layers": 4}  # fmt: skip


def fedavg_cnn(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: Annotated[int, Field(gt=0)] = 64,
    hidden: Annotated[int, Field(gt=0)] = 200,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
) -> nn.Module:
    """Return the network of SME and DLF, as torch initialises it.

    Conv 3×3 `width`, ReLU, mean-pool 2×2 – conv 3×3 twice as wide, ReLU, mean-pool 2×2 – dense `hidden`, ReLU
    – dense classes. Source: SME, its code for CIFAR-100 (64, 200); DLF has 32 and 100 for FEMNIST.

    width: the channels of the first convolution.
    hidden: the neurons of the first dense layer.
    normalise: the data set by whose mean and deviation pixels are normalised; `none` leaves them as is.
    """
    rows, columns, channels = shape
    flat = 2 * width * (rows // 4) * (columns // 4)
    network = sequential(
        conv1=nn.Conv2d(channels, width, 3, padding=1),
        relu1=nn.ReLU(),
        pool1=nn.AvgPool2d(2),
        conv2=nn.Conv2d(width, 2 * width, 3, padding=1),
        relu2=nn.ReLU(),
        pool2=nn.AvgPool2d(2),
        flatten=nn.Flatten(),
        dense1=nn.Linear(flat, hidden),
        relu3=nn.ReLU(),
        dense2=nn.Linear(hidden, classes),
    )
    return normalised(network, normalise)
