"""The fully connected network of Fidel, Table I."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.layers import ACTIVATIONS, Dropout, glorot, sequential

COST = {"operations": "0.9 * (area * (channels / 3))", "layers": 3,
        "weights": "0.5 * (area * (channels / 3))", "dense": True}  # fmt: skip


def fcnn(
    shape: tuple[int, int, int],
    classes: int,
    *,
    activation: Literal["relu", "sigmoid", "tanh", "linear"] = "relu",
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    width: Annotated[int, Field(gt=0)] = 128,
) -> nn.Module:
    """Return Fidel's fully connected network, untrained.

    Dense 128 (activation under test) – dropout – dense 128 ReLU – dense 64 ReLU – dense classes (softmax in
    the loss). Source: Fidel, Table I; dropout after the first dense layer and its rate of 0.5 are from the
    demonstration code.

    activation: the activation under test, of the first dense layer.
    dropout: the rate of the dropout, in [0, 1).
    width: the neurons of the first dense layer; 128 in Table I.
    """
    rows, columns, channels = shape
    return glorot(
        sequential(
            flatten=nn.Flatten(),
            dense1=nn.Linear(rows * columns * channels, width),
            activation1=ACTIVATIONS[activation](),
            dropout=Dropout(dropout, width),
            dense2=nn.Linear(width, 128),
            activation2=nn.ReLU(),
            dense3=nn.Linear(128, 64),
            activation3=nn.ReLU(),
            dense4=nn.Linear(64, classes),
        )
    )
