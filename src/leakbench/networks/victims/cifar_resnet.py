"""ResNet-20 and ResNet-32, the narrow residual networks for small images."""

from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import pad

from leakbench.networks.layers import activate, normalised
from leakbench.networks.victims.resnet20_4 import three_stages

COST = {
    "operations": "area * {20: 82, 32: 140}[depth]",
    "weights": "{20: 0.3, 32: 0.5}[depth]",
    "layers": "depth + 1",
}


class ZeroPadding(nn.Module):
    """A shortcut without parameters, which adds channels of zeros."""

    def __init__(self, more: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = more, stride

    def forward(self, x: Tensor) -> Tensor:
        before = self.more // 2
        return pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.more - before))


def cifar_resnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    depth: Literal[20, 32] = 20,
    shortcut: Literal["projection", "zero-padding"] = "projection",
    initialisation: Literal["default", "kaiming"] = "default",
    normalise: Literal["none", "cifar10", "cifar100", "imagenet"] = "none",
    activation: Literal["relu", "sigmoid"] = "relu",
    statistics: Literal["running", "batch"] = "running",
) -> nn.Module:
    """Return ResNet-20 or ResNet-32, untrained.

    Stem 3×3×16 – three stages of (depth - 2) / 6 blocks, 16, 32, 64 channels, strides 1, 2, 2 – mean pool –
    dense classes. Source: He et al., section 4.2. In FedKL's code the network with the lock has projections
    and torch's initialisation; the network without it has zeros and Kaiming's initialisation. The code's
    tests of leakage have sigmoids and batch statistics.

    depth: 20 for ResNet-20, 32 for ResNet-32.
    shortcut: what joins stages of different shape, a 1×1 convolution (`projection`) or zeros.
    initialisation: torch's own (`default`), or Kaiming-normal weights (fan in) of convolutions and dense
    layer.
    normalise: the data set by whose mean and deviation pixels are normalised; `none` leaves them as is.
    activation: the activation in place of every ReLU.
    statistics: batch norm goes by its own `running` statistics, or by those of each `batch` at hand.
    """
    network = three_stages(shape[2], classes, 16, (depth - 2) // 6, statistics)
    if shortcut == "zero-padding":
        for stage, channels in (("layer2", 16), ("layer3", 32)):
            network.set_submodule(f"{stage}.0.downsample", ZeroPadding(channels, 2))
    activate(network, activation)
    if initialisation == "kaiming":
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight)
    return normalised(network, normalise)
