"""The convolutional network of Fidel, Table II."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.layers import ACTIVATIONS, Dropout, glorot, sequential

COST = {"operations": "area * [7, 10][depth - 1]", "weights": "[1.0, 0.2][depth - 1]", "layers": "3 + depth"}


def cnn(
    shape: tuple[int, int, int],
    classes: int,
    *,
    activation: Literal["relu", "sigmoid", "tanh", "linear"] = "relu",
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    depth: Annotated[int, Field(ge=1, le=2, exclude_if=lambda value: value == 1)] = 1,
    downsampling: Annotated[
        Literal["max-pool", "stride"], Field(exclude_if=lambda value: value == "max-pool")
    ] = "max-pool",
) -> nn.Module:
    """Return Fidel's convolutional network, untrained.

    Conv 3×3×32 valid, no activation – max-pool 2×2 – dense 128 (activation under test) – dropout – dense 64
    ReLU – dense classes. The first dense layer reads 32 channels of 13×13 (MNIST) or 15×15
    (CIFAR-10). Source: Fidel, Table II.

    activation: the activation under test, of the first dense layer.
    dropout: the rate of the dropout, in [0, 1).
    depth: how often convolution and max-pool stand one behind another; the paper's network has them once.
    downsampling: what halves rows and columns: the paper's max-pool, or the stride of the convolution.
    """
    channels, *size = shape[2], *shape[:2]
    layers: dict[str, nn.Module] = {}
    for n in range(1, depth + 1):
        layers[f"conv{n}"] = nn.Conv2d(channels, 32, 3, stride=1 if downsampling == "max-pool" else 2)
        size, channels = [each - 2 for each in size], 32
        if downsampling == "max-pool":
            layers[f"pool{n}"] = nn.MaxPool2d(2)
            size = [each // 2 for each in size]
        else:
            size = [(each + 1) // 2 for each in size]
    return glorot(
        sequential(
            **layers,
            flatten=nn.Flatten(),
            dense1=nn.Linear(channels * size[0] * size[1], 128),
            activation1=ACTIVATIONS[activation](),
            dropout=Dropout(dropout, 128),
            dense2=nn.Linear(128, 64),
            activation2=nn.ReLU(),
            dense3=nn.Linear(64, classes),
        )
    )
