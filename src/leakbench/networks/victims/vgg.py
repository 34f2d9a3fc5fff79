"""VGG-16 as torchvision builds it, of any width."""

from typing import Literal

from torch import nn

from leakbench.networks.layers import Dropout, normalised, sequential

COST = {"operations": "870 * area", "weights": 135, "layers": 16}

# Configuration D, in multiples of the first layer's width; M halves rows and columns.
LAYERS: list[int | str] = [1, 1, "M", 2, 2, "M", 4, 4, 4, "M", 8, 8, 8, "M", 8, 8, 8, "M"]
POOLED = 7


def vgg(
    shape: tuple[int, int, int],
    classes: int,
    *,
    batch_norm: bool = False,
    dropout: float = 0.5,
    width: int = 64,
    hidden: int = 4096,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
) -> nn.Module:
    """Return VGG-16, untrained.

    The layers are configuration D of Simonyan and Zisserman, and the first weights are torchvision's.

    batch_norm: whether batch norm follows every convolution.
    dropout: the rate of the dropout behind the first two dense layers.
    width: the channels of the first layers; the last have eight times as many. 64 as published.
    hidden: the neurons of each dense layer except the last; 4,096 as published.
    normalise: the data set by whose mean and deviation pixels are normalised; `none` leaves them as is.

    Raises ValueError for images without three channels, or with fewer than 32 rows or columns.
    """
    from torchvision.models.vgg import make_layers

    if shape[2] != 3 or min(shape[:2]) < 32:
        raise ValueError(f"vgg takes three channels of at least 32×32, not {shape}")
    plan: list[str | int] = [layer if isinstance(layer, str) else width * layer for layer in LAYERS]
    network = sequential(
        features=make_layers(plan, batch_norm),
        pool=nn.AdaptiveAvgPool2d(POOLED),
        flat=nn.Flatten(),
        classifier=nn.Sequential(
            nn.Linear(8 * width * POOLED**2, hidden),
            nn.ReLU(),
            # This project's dropout, whose masks are handed in.
            Dropout(dropout, hidden),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            Dropout(dropout, hidden),
            nn.Linear(hidden, classes),
        ),
    )
    for layer in network.modules():
        match layer:
            case nn.Conv2d():
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                assert layer.bias is not None
                nn.init.zeros_(layer.bias)
            case nn.Linear():
                nn.init.normal_(layer.weight, 0, 0.01)
                nn.init.zeros_(layer.bias)
            case nn.ReLU():
                # What a layer returned is read again when gradients are taken, so nothing may be overwritten.
                layer.inplace = False
    return normalised(network, normalise)
