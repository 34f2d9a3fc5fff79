"""A perceptron with one hidden layer."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.layers import ACTIVATIONS, glorot, sequential

# Its size (`catalogue.costs.Network`).
COST = {"operations": 0.06, "weights": 0.001, "layers": 3, "dense": True}


def perceptron(
    shape: tuple[int, int, int],
    classes: int,
    *,
    activation: Literal["relu", "sigmoid", "tanh", "linear"] = "sigmoid",
    width: Annotated[int, Field(gt=0)] = 8,
) -> nn.Module:
    """Return a dense layer with an activation, and a dense layer of classes (softmax in the loss).

    The source is Ren's thesis, section 4.3.1.

    activation: the activation of the hidden layer.
    width: the neurons of the hidden layer.
    """
    rows, columns, channels = shape
    return glorot(
        sequential(
            flatten=nn.Flatten(),
            dense1=nn.Linear(rows * columns * channels, width),
            activation1=ACTIVATIONS[activation](),
            dense2=nn.Linear(width, classes),
        )
    )
