"""ResNet20-4: the network of InvG and AGIC for 32×32 images."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from leakbench.networks.layers import normalised

COST = {"operations": "1300 * area", "weights": 4.4, "layers": 21}


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions next to a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, channels: int, width: int, stride: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.relu = nn.ReLU()
        self.downsample = (
            nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), norm(width))
            if stride != 1 or channels != width
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


def three_stages(channels: int, classes: int, width: int, blocks: int, statistics: str) -> nn.Sequential:
    """Return a narrow residual network as torch initialises it: a stem, three stages, mean pool, dense."""
    norm = partial(nn.BatchNorm2d, track_running_stats=statistics == "running")
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, width, 3, 1, 1, bias=False), bn1=norm(width), relu=nn.ReLU()
    )
    channels = width
    for stage, stride in enumerate((1, 2, 2)):
        made = width * 2**stage
        first = ResidualBlock(channels, made, stride, norm)
        layers[f"layer{stage + 1}"] = nn.Sequential(
            first, *(ResidualBlock(made, made, 1, norm) for _ in range(1, blocks))
        )
        channels = made
    layers |= {
        "pool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
        "dense": nn.Linear(channels, classes),
    }
    return nn.Sequential(layers)


def resnet20_4(
    shape: tuple[int, int, int],
    classes: int,
    *,
    width: Annotated[int, Field(ge=8)] = 64,
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
    statistics: Literal["running", "batch"] = "running",
) -> nn.Module:
    """Return ResNet20-4, untrained.

    Stem 3×3×64 – three stages of three blocks, 64, 128, 256 channels, strides 1, 2, 2 – mean pool – dense
    classes. 1 + 18 + 2 projections = 21 convolutions, which is AGIC's N_conv. Weights are Kaiming-normal (fan
    out), batch norm starts at 1 and 0. Source: InvG, section 5; AGIC, Table I.

    width: the channels of the first stage, 64 as published. Below 8 the backward pass of torch's own strided
    1×1 convolution, channels last, corrupts memory on a CPU.
    normalise: the data set by whose mean and deviation pixels are normalised; `none` leaves them as is.
    statistics: batch norm goes by its own `running` statistics, or by those of each `batch` at hand.
    """
    network = three_stages(shape[2], classes, width, 3, statistics)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return normalised(network, normalise)
