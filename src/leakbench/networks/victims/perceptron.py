"""A perceptron with one hidden layer."""

from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.victims.mlp import mlp

COST = {"operations": "0.06 * area", "weights": 0.001, "layers": 3, "dense": True}


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
    return mlp(shape, classes, hidden=(width,), activation=activation, initial="glorot")
