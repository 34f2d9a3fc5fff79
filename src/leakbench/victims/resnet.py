"""ResNet-18, ResNet-34 and ResNet-50 as torchvision builds them, and as GRNN changes them for small
images."""

from typing import Literal

from torch import nn

from leakbench.victims.layers import activate, normalised


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

    `stem`: 7×7 with stride 2 and a max-pool, the same without the pool, or 3×3 with neither. `statistics`:
    batch norm's own, as in evaluation mode, or each batch's, as in training mode. `bound`: all parameters are
    uniform in [-bound, bound], batch norm's too; none: torchvision's own initialisation. `momentum`: share of
    the newest batch in batch norm's own statistics; a larger one follows a short training. Raises ValueError
    for other channels. Source: He et al.; AGIC attacks ResNet-50 on ImageNet; GRNN's code has sigmoids, the
    small stem, batch statistics and a bound of 0.5; FedKL's networks with a lock have no max-pool, those
    without one have it.
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
