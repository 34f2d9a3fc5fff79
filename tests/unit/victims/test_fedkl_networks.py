"""The networks of FedKL: sizes, shortcuts, twins, and that each takes a lock."""

import pytest
import torch
import torchvision
from torch import nn

from leakbench.defences.key_lock import first_norms
from leakbench.networks import victims
from leakbench.networks.victims.cifar_resnet import ZeroPadding


def build(module: str, classes: int = 10, size: int = 32, **parameters: object) -> nn.Module:
    torch.manual_seed(0)
    return victims.build(module, (size, size, 3), classes, dict(parameters))


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# He et al. print 0.27 M and 0.46 M for shortcuts without parameters.
@pytest.mark.parametrize(("depth", "size", "layers"), [(20, 269_722, 19), (32, 464_154, 31)])
def test_a_residual_network_for_small_images(depth: int, size: int, layers: int) -> None:
    plain = build("cifar-resnet", depth=depth, shortcut="zero-padding")
    assert count(plain) == size
    assert sum(isinstance(layer, nn.Conv2d) for layer in plain.modules()) == layers
    projected = build("cifar-resnet", depth=depth)
    # Two 1×1 convolutions with batch norm.
    assert count(projected) - size == 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64
    assert projected(torch.rand(2, 3, 32, 32)).shape == (2, 10)


def test_a_shortcut_of_zeros_keeps_every_second_pixel() -> None:
    x = torch.rand(1, 2, 4, 4)
    out = ZeroPadding(2, 2)(x)
    assert out.shape == (1, 4, 2, 2)
    assert torch.equal(out[:, 1:3], x[:, :, ::2, ::2])
    assert not out[:, [0, 3]].any()


def test_initialisations_differ_and_nothing_else() -> None:
    own, kaiming = (build("cifar-resnet", initialisation=name) for name in ("default", "kaiming"))
    assert [p.shape for p in own.parameters()] == [p.shape for p in kaiming.parameters()]
    weight = kaiming.get_submodule("layer1.0.conv1").weight
    assert weight.std().item() == pytest.approx((2 / (16 * 9)) ** 0.5, rel=0.1)
    assert own.get_submodule("layer1.0.conv1").weight.abs().max() <= (1 / (16 * 9)) ** 0.5


def test_a_lenet_with_batch_norm_has_one_layer_more() -> None:
    plain, normed = build("lenet-dlg"), build("lenet-dlg", norm="batch")
    rest = {name: value.shape for name, value in normed.state_dict().items() if not name.startswith("norm1")}
    assert rest == {name: value.shape for name, value in plain.state_dict().items()}
    assert [name for name, _ in normed.named_children()][:3] == ["conv1", "norm1", "activation1"]


@pytest.mark.parametrize(("stem", "side"), [("large", 8), ("unpooled", 16), ("small", 32)])
def test_a_stem_without_its_pool_has_four_times_the_area(stem: str, side: int) -> None:
    model = build("resnet", depth=18, stem=stem)
    seen: list[torch.Tensor] = []
    model.get_submodule("layer1").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(torch.rand(2, 3, 32, 32))
    assert seen[0].shape[-1] == side


def test_the_large_networks_have_torchvisions_sizes() -> None:
    with torch.device("meta"):
        sizes = {
            name: count(victims.build(name, (224, 224, 3), 1000, parameters))
            for name, parameters in (("resnet", {"depth": 34}), ("vgg", {"batch_norm": True}))
        }
    assert sizes == {"resnet": 21_797_672, "vgg": 138_365_992}


@pytest.mark.parametrize(
    ("module", "parameters", "norm"),
    [
        ("lenet-dlg", {"norm": "batch"}, "norm1"),
        ("cifar-resnet", {"normalise": "imagenet"}, "network.bn1"),
        ("resnet", {"depth": 34, "stem": "unpooled"}, "bn1"),
        ("vgg", {"batch_norm": True}, "features.1"),
    ],
)
def test_the_lock_goes_behind_the_first_convolution(
    module: str, parameters: dict[str, object], norm: str
) -> None:
    with torch.device("meta"):
        model = victims.build(module, (32, 32, 3), 10, parameters)
    assert first_norms(model)[0] == norm


def test_vgg_refuses_what_it_cannot_halve_five_times() -> None:
    with pytest.raises(ValueError, match="at least 32×32"):
        build("vgg", size=28)


def test_vgg_begins_as_torchvisions() -> None:
    ours = build("vgg", batch_norm=True).state_dict()
    torch.manual_seed(0)
    theirs = torchvision.models.vgg16_bn(num_classes=10).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())


def test_a_narrow_vgg_is_narrow_everywhere() -> None:
    sizes = {name: tuple(p.shape) for name, p in build("vgg", width=4, hidden=16).named_parameters()}
    assert sizes["features.0.weight"] == (4, 3, 3, 3)
    assert sizes["features.28.weight"] == (32, 32, 3, 3)
    assert sizes["classifier.0.weight"] == (16, 32 * 49)
    assert sizes["classifier.6.weight"] == (10, 16)


def test_the_tests_of_leakage_have_sigmoids_and_each_batchs_statistics() -> None:
    network = build("cifar-resnet", activation="sigmoid", statistics="batch")
    layers = list(network.modules())
    assert sum(isinstance(layer, nn.Sigmoid) for layer in layers) == 10
    assert not any(isinstance(layer, nn.ReLU) for layer in layers)
    norms = [layer for layer in layers if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 21
    assert all(norm.running_mean is None for norm in norms)
    plain = build("cifar-resnet")
    assert [name for name, _ in network.named_parameters()] == [name for name, _ in plain.named_parameters()]
