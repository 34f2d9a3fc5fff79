"""DenseNets as torchvision builds them."""

from collections import OrderedDict
from typing import Literal

from torch import nn

from leakbench.networks.layers import normalised

COST = {"operations": "120 * area", "weights": 8, "layers": 121}


def densenet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
    stem: Literal["large", "small"] = "large",
    growth: int = 32,
    layers: tuple[int, int, int, int] = (6, 12, 24, 16),
    momentum: float = 0.1,
) -> nn.Module:
    """Return torchvision's DenseNet, untrained, for images of any size with three channels.

    Parameters are named as in torchvision. Source: Huang et al. 2017; Ren's thesis (section 3.3.4) identifies
    faces with this network.

    normalise: the data set by whose mean and deviation pixels are normalised; `none` leaves them as is.
    stem: `large` is 7×7 with stride 2 and a max-pool, `small` is 3×3 with neither.
    growth: the channels that each dense layer adds; the stem has twice as many.
    layers: the number of dense layers of each block; the default is DenseNet-121.
    momentum: share of the newest batch in batch norm's own statistics; more for a short training.

    Raises ValueError for images without three channels.
    """
    from torchvision.models.densenet import DenseNet

    if shape[2] != 3:
        raise ValueError(f"densenet takes three channels, not {shape[2]}")
    built = DenseNet(growth, layers, 2 * growth, num_classes=classes)
    features = built.features
    if stem == "small":
        features.conv0 = nn.Conv2d(3, 2 * growth, 3, 1, 1, bias=False)
        features.pool0 = nn.Identity()
    for layer in features.modules():
        if isinstance(layer, nn.ReLU):
            # What a layer returned is read again when gradients are taken, so nothing may be overwritten.
            layer.inplace = False
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = momentum
    # The head is rebuilt: torchvision's own forward pass overwrites what the last batch norm returned.
    head = [("relu", nn.ReLU()), ("pool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())]
    network = nn.Sequential(OrderedDict([("features", features), *head, ("classifier", built.classifier)]))
    return normalised(network, normalise)
