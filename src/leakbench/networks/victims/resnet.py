"""ResNet-18, ResNet-34 and ResNet-50 as torchvision builds them, and as GRNN changes them."""

from typing import Literal

from torch import nn

from leakbench.networks.layers import activate, normalised

COST = {
    "operations": "area * {'large': {18: 75, 34: 150, 50: 170}, 'unpooled': {18: 290, 34: 590, 50: 660},"
    " 'small': {18: 1120, 34: 2330, 50: 2610}}[stem][depth]",
    "weights": "{18: 12, 34: 22, 50: 26}[depth]", "layers": "{18: 21, 34: 37, 50: 54}[depth]",
}  # fmt: skip


def resnet(
    shape: tuple[int, int, int],
    classes: int,
    *,
    depth: Literal[18, 34, 50] = 18,
    normalise: Literal["none", "half", "cifar10", "cifar100", "imagenet"] = "none",
    activation: Literal["relu", "sigmoid"] = "relu",
    stem: Literal["large", "unpooled", "small"] = "large",
    statistics: Literal["running", "batch"] = "running",
    bound: float | None = None,
    momentum: float = 0.1,
) -> nn.Module:
    """Return torchvision's network, untrained, for images of any size with three channels.

    The network is that of He et al. AGIC attacks ResNet-50 on ImageNet. GRNN's code has sigmoids, the small
    stem, batch statistics and a bound of 0.5. FedKL's networks with a lock have no max-pool; those without a
    lock have it.

    depth: 18, 34 or 50, as in the network's name.
    normalise: the data set by whose mean and standard deviation pixels are normalised. `half` takes 0.5 for
    both, `none` leaves them as they are.
    activation: the activation in place of every ReLU.
    stem: `large` is 7×7 with stride 2 and a max-pool, `unpooled` the same without the pool, `small` 3×3 with
    neither.
    statistics: batch norm goes by its own `running` statistics, or by those of each `batch` at hand.
    bound: all parameters, batch norm's too, are uniform in [-bound, bound]; without it they are initialised
    as torchvision does.
    momentum: share of the newest batch in batch norm's own statistics; more for a short training.

    Raises ValueError for images without three channels.
    """
    from torchvision.models import resnet18, resnet34, resnet50

    if shape[2] != 3:
        raise ValueError(f"resnet takes three channels, not {shape[2]}")
    network = {18: resnet18, 34: resnet34, 50: resnet50}[depth](weights=None, num_classes=classes)
    if stem == "small":
        network.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    if stem != "large":
        network.maxpool = nn.Identity()
    for layer in activate(network, activation).modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = momentum
            if statistics == "batch":
                layer.track_running_stats = False
                layer.running_mean = layer.running_var = layer.num_batches_tracked = None
    if bound is not None:
        for parameter in network.parameters():
            nn.init.uniform_(parameter, -bound, bound)
    return normalised(network, normalise)
