"""A chain of dense layers."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import nn

from leakbench.networks.layers import ACTIVATIONS, glorot, in_precision, normalised, sequential

COST = {"weights": "sum([a * b for a, b in zip([values] + [n for n in hidden], hidden)]) / 1e6",
        "operations": "2 * weights", "layers": "len(hidden) + 1", "dense": True}  # fmt: skip


def mlp(
    shape: tuple[int, int, int],
    classes: int,
    *,
    hidden: tuple[Annotated[int, Field(gt=0)], ...] = (1000,),
    activation: Literal["relu", "sigmoid", "tanh", "linear"] = "relu",
    initial: Literal["glorot", "torch"] = "torch",
    deviation: Annotated[float, Field(gt=0)] | None = None,
    normalise: Literal["none", "half", "mnist", "cifar10", "cifar100", "train", "batch"] = "none",
    precision: Literal["float32", "float64"] = "float32",
) -> nn.Module:
    """Return dense layers, each followed by the activation, and a dense layer of the classes.

    The default width and activation are those of arXiv:2609.09659, whose first layer has 1,000 ReLUs. That
    paper also has glorot and a deviation of 0.5, which are not the defaults here.

    hidden: the number of neurons of each hidden layer; the first layer reads pixels or records.
    activation: the activation of all hidden layers.
    initial: `glorot` initialises as Keras does, with zero biases; `torch` by torch's defaults.
    deviation: if given, the first layer's weights are normal with this standard deviation instead.
    normalise: the data set by whose mean and standard deviation pixels are normalised. `half` takes 0.5 for
    both, `none` leaves them as they are. `train` measures both on the training data, for each value, and
    sends them with the weights. `batch` takes those of each channel of the batch at hand, which nobody else
    learns.
    precision: the precision of the weights, in which a client computes and sends its update.
    """
    rows, columns, channels = shape
    widths = [rows * columns * channels, *hidden]
    layers: dict[str, nn.Module] = {"flatten": nn.Flatten()}
    for number, (before, after) in enumerate(zip(widths, hidden, strict=False), 1):
        layers |= {
            f"dense{number}": nn.Linear(before, after),
            f"activation{number}": ACTIVATIONS[activation](),
        }
    network = sequential(**layers, **{f"dense{len(widths)}": nn.Linear(widths[-1], classes)})
    if initial == "glorot":
        glorot(network)
    if deviation is not None:
        nn.init.normal_(network.dense1.weight, 0.0, deviation)  # type: ignore[arg-type,union-attr]
    return in_precision(normalised(network, normalise, shape), getattr(torch, precision))
