"""The small ConvNet of InvG."""

from collections import OrderedDict
from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from leakbench.networks.layers import normalised

COST = {"operations": "3700 * area", "weights": 3, "layers": 8}


def convnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: Annotated[int, Field(gt=0)] = 64,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
) -> nn.Module:
    """Return ConvNet: eight 3×3 convolutions with batch norm and ReLU, two max-pools and a dense layer.

    The layers are 1, 2, 2, 4, 4, 4, pool, 4, 4, pool, where a number times `width` is a convolution's
    channels; by default these are 64 to 256. Source: InvG's code, ConvNet.

    width: the channels of the first convolution.
    normalise: the data set by whose mean and deviation pixels are normalised; `none` leaves them as is.
    """
    rows, columns, channels = shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, times in enumerate((1, 2, 2, 4, 4, 4, 4, 4)):
        layers[f"conv{number}"] = nn.Conv2d(channels, times * width, 3, padding=1)
        layers[f"bn{number}"] = nn.BatchNorm2d(times * width)
        layers[f"relu{number}"] = nn.ReLU()
        channels = times * width
        if number in (5, 7):
            layers[f"pool{number}"] = nn.MaxPool2d(3)
    layers |= {"flatten": nn.Flatten(), "dense": nn.Linear(channels * (rows // 9) * (columns // 9), classes)}
    return normalised(nn.Sequential(layers), normalise)
