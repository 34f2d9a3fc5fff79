"""torchvision's classifiers as they come, at small size: the same gradients as autograd's."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torchvision.models as zoo
from nightly import daily
from test_engines import drawn, holds
from torch import nn
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.efficientnet import FusedMBConvConfig, MBConvConfig
from torchvision.models.regnet import BlockParams
from torchvision.models.resnet import Bottleneck
from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2
from torchvision.models.vgg import make_layers

from leakbench.attacks.matching.engines.frozen import pays
from leakbench.attacks.matching.engines.gradients import gradients
from leakbench.base.errors import Unfit

SMALL: dict[str, Any] = {"num_classes": 3, "weights": None}
BLOCKS = [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]
EFFICIENT = [FusedMBConvConfig(1, 3, 1, 8, 8, 1), MBConvConfig(4, 5, 2, 8, 16, 1)]
SWIN = (zoo.SwinTransformer, [2, 2], 8, [1, 1], [1, 2], [2, 2])
SWIN_2 = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2}


def slim(model: Any, width: int = 8) -> nn.Module:
    """Return a model whose dense layers have this many neurons instead of thousands."""
    dense = [place for place, layer in enumerate(model.classifier) if isinstance(layer, nn.Linear)]
    for place in dense:
        layer = model.classifier[place]
        read = layer.in_features if place == dense[0] else width
        model.classifier[place] = nn.Linear(read, layer.out_features if place == dense[-1] else width)
    found: nn.Module = model
    return found


# One of each kind of block, with fewer layers where its constructor lets one choose, and the side of images.
FAMILIES: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "alexnet": (lambda: slim(zoo.alexnet(**SMALL)), 64),
    "vgg": (lambda: slim(zoo.VGG(make_layers([8, "M", 512, "M"], True), 3, init_weights=False)), 32),
    "inception": (partial(zoo.inception_v3, init_weights=False, aux_logits=False, **SMALL), 75),
    "efficientnet": (partial(zoo.EfficientNet, EFFICIENT, 0.2, num_classes=3), 32),
    "regnet": (lambda: zoo.RegNet(BlockParams.from_init_params(4, 8, 8, 2, 8, se_ratio=0.25), 3), 32),
    "densenet": (partial(zoo.DenseNet, 4, (2, 2), 8, num_classes=3), 32),
    "googlenet": (partial(zoo.googlenet, init_weights=False, aux_logits=False, **SMALL), 32),
    "mnasnet": (partial(zoo.MNASNet, 0.25, 3), 32),
    "resnet": (partial(zoo.resnet18, **SMALL), 32),
    "resnext": (partial(zoo.ResNet, Bottleneck, [1, 1, 1, 1], 3, groups=4, width_per_group=4), 32),
    "shufflenet": (partial(zoo.shufflenet_v2_x0_5, **SMALL), 32),
    "squeezenet": (partial(zoo.squeezenet1_1, **SMALL), 32),
    "convnext": (partial(zoo.ConvNeXt, BLOCKS, num_classes=3), 32),
    "swin": (partial(*SWIN, num_classes=3), 8),
    "swin_v2": (partial(*SWIN, num_classes=3, **SWIN_2), 8),
    "vit": (partial(zoo.VisionTransformer, 8, 4, 1, 2, 8, 16, num_classes=3), 8),
    "maxvit": (partial(zoo.MaxVit, (32, 32), 4, 4, [8], [1], 4, 0.0, num_classes=3), 32),
}


def made(family: str) -> tuple[nn.Module, int]:
    torch.manual_seed(0)
    model, side = FAMILIES[family]
    network = model().double()
    # Norms that have seen something, so that nothing vanishes on the way.
    with torch.no_grad():
        network.train()(torch.rand(8, 3, side, side, dtype=torch.double))
    return network.eval().requires_grad_(False), side


# Each day plain layers, joined features and attention.
@pytest.mark.parametrize("family", daily(FAMILIES, ("alexnet", "densenet", "swin")))
def test_a_classifier_as_it_comes(family: str) -> None:
    model, side = made(family)
    holds(model, *drawn(2, 1, side, 3), tolerance=1e-6)


def test_what_torch_has_no_second_derivative_of_is_refused() -> None:
    """MobileNet v3's hard sigmoids."""
    model = zoo.mobilenet_v3_small(width_mult=0.25, **SMALL).eval().requires_grad_(False)
    with pytest.raises(Unfit, match="hardsigmoid"):
        gradients(model, torch.rand(1, 1, 3, 32, 32), torch.zeros(1, 1, dtype=torch.int64))


def test_in_place_rectifiers_do_not_cost_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """torchvision's ResNets rectify in place all over."""
    model, side = made("resnet")
    assert pays(model.float(), torch.Size([1, 3, side, side]))
    assert not capsys.readouterr().err
