"""The CRNN of FedBoosting's code: convolutions, and two bidirectional LSTMs over the columns."""

from collections import OrderedDict
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.networks.layers import glorot, normalised

COST = {"operations": "400 * area", "weights": 9, "layers": 12}


class Columns(nn.Module):
    """Turn features [n, channels, rows, columns] into a sequence [n, columns, channels × rows]."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1, 2).transpose(1, 2)


class Sequence(nn.Module):
    """A bidirectional LSTM that returns only its states, [n, steps, 2 × units]."""

    def __init__(self, features: int, units: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features, units, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.lstm(x)[0]
        return states


def crnn(shape: tuple[int, int, int], classes: int, *, width: Annotated[int, Field(gt=0)] = 64) -> nn.Module:
    """Return the network, untrained, from pixels [n, 3, 32, columns] in [0, 1] to logits.

    Logits are [n, steps, classes + 1], with the blank last, and there is a step for every four columns. The
    convolutions have 1, 2, 4, 4, 8, 8, 8 times `width` channels, and the LSTMs have 4 times `width` units in
    each direction. Batch norm follows the third, fifth and last ReLU. Source: Shi et al., and FedBoosting's
    code, from which the paddings are. The network is initialised as Keras does it, except that batch norm has
    torch's constants, with which its statistics follow within few rounds.

    width: the channels of the first convolution; 64 as published.

    Raises ValueError for images that are not 32 rows high.
    """
    rows, _, channels = shape
    if rows != 32:
        raise ValueError(f"crnn reads lines of 32 rows, not {rows}")
    # The channels of each convolution, in units of the width, and what follows its ReLU.
    plan: list[tuple[int, dict[str, nn.Module]]] = [
        (1, {"pool1": nn.MaxPool2d(2)}),
        (2, {"pool2": nn.MaxPool2d(2)}),
        (4, {"norm3": nn.BatchNorm2d(4 * width)}),
        (4, {"pad4": nn.ZeroPad2d((0, 1, 0, 0)), "pool4": nn.MaxPool2d(2, (2, 1))}),
        (8, {"norm5": nn.BatchNorm2d(8 * width)}),
        (8, {"pad6": nn.ZeroPad2d((1, 1, 0, 0)), "pool6": nn.MaxPool2d(2, (2, 1))}),
        (8, {"norm7": nn.BatchNorm2d(8 * width)}),
    ]
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, (times, then) in enumerate(plan, 1):
        size, padding = (2, 0) if number == 7 else (3, "same")
        layers[f"conv{number}"] = nn.Conv2d(channels, times * width, size, padding=padding)
        layers |= {f"relu{number}": nn.ReLU()} | then
        channels = times * width
    layers["columns"] = Columns()
    layers["lstm1"] = Sequence(channels, 4 * width)
    layers["lstm2"] = Sequence(8 * width, 4 * width)
    layers["dense"] = nn.Linear(8 * width, classes + 1)
    return normalised(recurrent(glorot(nn.Sequential(layers))), "half")


@torch.no_grad()
def recurrent(model: nn.Module) -> nn.Module:
    """Initialise LSTMs in place as Keras does by default, and return the model; forget gates begin open."""
    for layer in model.modules():
        if isinstance(layer, nn.LSTM):
            for name, value in layer.named_parameters():
                if name.startswith("weight_ih"):
                    nn.init.xavier_uniform_(value)
                elif name.startswith("weight_hh"):
                    nn.init.orthogonal_(value)
                else:
                    value.zero_()
                if name.startswith("bias_ih"):
                    # Gates are in the order input, forget, cell, output.
                    value[layer.hidden_size : 2 * layer.hidden_size] = 1
    return model
