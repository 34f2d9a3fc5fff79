"""The convolutional network of Fidel, Table II."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.layers import ACTIVATIONS, Dropout, glorot, sequential

# Its size (`catalogue.costs.Network`).
COST = {"operations": 7, "weights": 1.0, "layers": 4}


def cnn(
    shape: tuple[int, int, int],
    classes: int,
    *,
    activation: Literal["relu", "sigmoid", "tanh", "linear"] = "relu",
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> nn.Module:
    """Return Fidel's convolutional network, untrained.

    Conv 3×3×32 valid, no activation – max-pool 2×2 – dense 128 (activation under test) – dropout – dense 64
    ReLU – dense classes. The first dense layer reads 32 channels of 13×13 (MNIST) or 15×15
    (CIFAR-10). Source: Fidel, Table II.

    activation: the activation under test, of the first dense layer.
    dropout: the rate of the dropout, in [0, 1).
    """
    rows, columns, channels = shape
    flat = 32 * ((rows - 2) // 2) * ((columns - 2) // 2)
    return glorot(
        sequential(
            conv1=nn.Conv2d(channels, 32, 3),
            pool1=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            dense1=nn.Linear(flat, 128),
            activation1=ACTIVATIONS[activation](),
            dropout=Dropout(dropout, 128),
            dense2=nn.Linear(128, 64),
            activation2=nn.ReLU(),
            dense3=nn.Linear(64, classes),
        )
    )
