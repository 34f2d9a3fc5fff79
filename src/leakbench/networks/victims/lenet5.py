"""LeNet-5 with ReLUs, as iLRG has it."""

from collections.abc import Callable
from typing import Literal

from torch import nn

from leakbench.networks.layers import normalised, sequential

COST = {"operations": "1.3 * area", "weights": 0.1, "layers": 5}


def lenet5(
    shape: tuple[int, int, int],
    classes: int,
    *,
    normalise: Literal["none", "half", "mnist", "cifar10", "cifar100"] = "none",
) -> nn.Module:
    """Return LeNet-5: conv 5×5×6 - max-pool - conv 5×5×16 - max-pool - dense 120, 84, classes, with ReLUs.

    Convolutions start with normal weights by He's rule (fan-out), all other layers as torch initialises
    them. Source: the code of iLRG (Ma et al., 2023).

    normalise: the data set by whose mean and deviation pixels are normalised, `half` by 0.5, `none` not.
    """
    network = lenet5_layers(shape, classes, nn.ReLU)
    for layer in (network.conv1, network.conv2):
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")  # type: ignore[arg-type,union-attr]
    return normalised(network, normalise)


def lenet5_layers(
    shape: tuple[int, int, int], classes: int, activation: Callable[[], nn.Module]
) -> nn.Sequential:
    """Return the layers of LeNet-5 as torch initialises them."""
    rows, columns, channels = shape
    flat = 16 * ((rows - 12) // 4) * ((columns - 12) // 4)
    return sequential(
        conv1=nn.Conv2d(channels, 6, 5),
        activation1=activation(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5),
        activation2=activation(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        dense1=nn.Linear(flat, 120),
        activation3=activation(),
        dense2=nn.Linear(120, 84),
        activation4=activation(),
        dense3=nn.Linear(84, classes),
    )
