"""ResNet-18 and ResNet-50 as torchvision builds them."""

from typing import Literal

from torch import nn

from leakbench.victims.layers import normalised


def resnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    depth: Literal[18, 50] = 18,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
) -> nn.Module:
    """Return torchvision's network, untrained, for images of any size with three channels.

    Raises ValueError for other channels. Source: He et al.; AGIC attacks ResNet-50 on ImageNet.
    """
    from torchvision.models import resnet18, resnet50

    if shape[2] != 3:
        raise ValueError(f"resnet takes three channels, not {shape[2]}")
    network = {18: resnet18, 50: resnet50}[depth](weights=None, num_classes=classes)
    for layer in network.modules():
        if isinstance(layer, nn.ReLU):
            # What a layer returned is read again when gradients are taken, so nothing may be overwritten.
            layer.inplace = False
    return normalised(network, normalise)
