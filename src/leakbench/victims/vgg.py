"""VGG-16 as torchvision builds it."""

from typing import Literal

from torch import nn

from leakbench.victims.layers import Dropout, normalised


def vgg(
    shape: tuple[int, int, int],
    classes: int,
    *,
    batch_norm: bool = False,
    dropout: float = 0.5,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
) -> nn.Module:
    """Return torchvision's VGG-16, untrained, with batch norm behind every convolution or nowhere.

    `shape` must have three channels and at least 32 rows and columns; raises ValueError for others. Source: Simonyan and
    Zisserman, configuration D.
    """
    from torchvision.models import vgg16, vgg16_bn

    if shape[2] != 3 or min(shape[:2]) < 32:
        raise ValueError(f"vgg takes three channels of at least 32×32, not {shape}")
    network = (vgg16_bn if batch_norm else vgg16)(weights=None, num_classes=classes)
    for layer in network.modules():
        if isinstance(layer, nn.ReLU):
            # What a layer returned is read again when gradients are taken, so nothing may be overwritten.
            layer.inplace = False
    # Dropout whose masks are handed in.
    for name, layer in enumerate(network.classifier):
        if isinstance(layer, nn.Dropout):
            network.classifier[name] = Dropout(dropout, 4096)
    return normalised(network, normalise)
