"""Networks of other works, and PRECODE."""

import math
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, softplus

from leakbench.base.artefacts import write_tensors
from leakbench.defences.key_lock import first_norms
from leakbench.networks import victims
from leakbench.networks.layers import Dropout, draw_masks
from leakbench.networks.tasks import recognition
from leakbench.networks.victims.cifar_resnet import ZeroPadding
from leakbench.networks.victims.crnn import crnn
from leakbench.networks.victims.file import load_victim
from leakbench.networks.victims.precode import Bottleneck


def build(module: str, classes: int = 10, size: int = 32, **parameters: object) -> nn.Module:
    torch.manual_seed(0)
    return victims.build(module, (size, size, 3), classes, dict(parameters))


def test_a_shortcut_of_zeros_keeps_every_second_pixel() -> None:
    x = torch.rand(1, 2, 4, 4)
    out = ZeroPadding(2, 2)(x)
    assert out.shape == (1, 4, 2, 2)
    assert torch.equal(out[:, 1:3], x[:, :, ::2, ::2])
    assert not out[:, [0, 3]].any()
    assert build("cifar-resnet")(torch.rand(2, 3, 32, 32)).shape == (2, 10)


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


@pytest.mark.parametrize(
    ("module", "parameters", "norm"),
    [("lenet-dlg", {"norm": "batch"}, "norm1"), ("cifar-resnet", {"normalise": "imagenet"}, "network.bn1"),
     ("resnet", {"depth": 34, "stem": "unpooled"}, "bn1"), ("vgg", {"batch_norm": True}, "features.1")],
)  # fmt: skip
def test_the_lock_is_behind_a_convolution(module: str, parameters: dict[str, object], norm: str) -> None:
    with torch.device("meta"):
        model = victims.build(module, (32, 32, 3), 10, parameters)
    assert first_norms(model)[0] == norm


def test_vgg_begins_as_torchvisions_and_a_narrow_one_is_narrow_everywhere() -> None:
    ours = build("vgg", batch_norm=True).state_dict()
    torch.manual_seed(0)
    theirs = torchvision.models.vgg16_bn(num_classes=10).state_dict()
    assert list(ours) == list(theirs)
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    sizes = {name: tuple(p.shape) for name, p in build("vgg", width=4, hidden=16).named_parameters()}
    ends = ("features.0", "features.28", "classifier.0", "classifier.6")
    assert [sizes[f"{name}.weight"] for name in ends] == [
        (4, 3, 3, 3), (32, 32, 3, 3), (16, 32 * 49), (10, 16),
    ]  # fmt: skip


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


SHAPE = (32, 100, 3)


def parameters_by_hand(width: int) -> int:
    channels = [3, *(width * times for times in (1, 2, 4, 4, 8, 8, 8))]
    sizes = [3, 3, 3, 3, 3, 3, 2]
    convolutions = sum((size**2 * channels[n] + 1) * channels[n + 1] for n, size in enumerate(sizes))
    norms = 2 * (channels[3] + channels[5] + channels[7])
    units = 4 * width
    # Four gates, each with two biases in torch, both directions, two layers that read 8 widths.
    lstms = 2 * 2 * 4 * units * (8 * width + units + 2)
    return convolutions + norms + lstms + (8 * width + 1) * 37


@pytest.mark.parametrize(("width", "columns"), [(4, 100), (4, 160), (64, 100)])
def test_a_crnn_has_the_published_layers_and_a_step_for_every_four_columns(width: int, columns: int) -> None:
    model = crnn((32, columns, 3), 36, width=width)
    assert sum(p.numel() for p in model.parameters()) == parameters_by_hand(width)
    assert model(torch.rand(2, 3, 32, columns)).shape == (2, columns // 4, 37)
    levels = torch.tensor([0.0, 127.5, 255.0])[:, None, None, None].expand(3, 3, 32, 100)
    assert model.normalise(levels / 255)[:, 0, 0, 0].tolist() == pytest.approx([-1, 0, 1])


def test_it_starts_as_keras_starts_it() -> None:
    torch.manual_seed(0)
    model = crnn(SHAPE, 36, width=8).network
    lstm = model.lstm1.lstm
    recurrent = lstm.weight_hh_l0.detach()
    torch.testing.assert_close(recurrent.T @ recurrent, torch.eye(32), atol=1e-5, rtol=0)
    biases = lstm.bias_ih_l0 + lstm.bias_hh_l0
    assert biases.view(4, 32).sum(1).tolist() == [0, 32, 0, 0]
    assert model.conv5.weight.abs().max().item() <= (6 / (9 * (32 + 64))) ** 0.5
    assert not model.conv5.bias.any()


def test_it_learns_what_a_few_pictures_say() -> None:
    torch.manual_seed(0)
    model = crnn(SHAPE, 3, width=3)
    x = torch.rand(4, 3, 32, 100)
    y = torch.tensor([[0, 1, -1], [1, 0, -1], [2, -1, -1], [2, 2, 1]])
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        optimiser.zero_grad()
        recognition.loss(model(x), y).backward()
        optimiser.step()
        if recognition.correct(model(x), y).all():
            return
    raise AssertionError(recognition.read(model(x)))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_masks_are_zero_or_the_inverse_of_what_is_kept(rate: float) -> None:
    layer, x = Dropout(rate, 128), torch.rand(500, 128)
    mask = layer.draw((4, 500), torch.Generator().manual_seed(0))
    assert mask.shape == (4, 500, 128)
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])
    # A kept share of 1 - rate times 1/(1 - rate): the mean is 1 within 5 standard errors.
    assert mask.mean().item() == pytest.approx(1, abs=5 * sqrt(rate / (1 - rate) / mask.numel()))
    assert (mask.flatten(0, 1).mean(0) - 1).abs().max() < 6 * sqrt(rate / (1 - rate) / 2000)
    # A victim left alone evaluates, and a mask is no part of its weights.
    assert torch.equal(layer.train()(x), x)
    layer.keep = mask[0]
    assert torch.equal(layer(x), x * mask[0])
    assert not layer.state_dict()


def test_masks_are_drawn_for_every_dropout_and_for_none() -> None:
    model = victims.build("cnn", (28, 28, 1), 10, {"dropout": 0.5})
    masks = draw_masks(model, (2, 5), torch.Generator().manual_seed(1))
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {"dropout.keep": (2, 5, 128)}
    again = draw_masks(model, (2, 5), torch.Generator().manual_seed(1))
    assert torch.equal(masks["dropout.keep"], again["dropout.keep"])
    other = draw_masks(model, (2, 5), torch.Generator().manual_seed(2))
    assert not torch.equal(masks["dropout.keep"], other["dropout.keep"])
    assert draw_masks(victims.build("cnn", (28, 28, 1), 10, {}), (2, 5), torch.Generator()) == {}


def test_each_checkpoint_comes_back_and_the_last_by_default(tmp_path: Path) -> None:
    states = {}
    for epoch in (0, 2, 10):
        torch.manual_seed(epoch)
        states[epoch] = victims.build("fcnn", (4, 4, 1), 3, {"width": 5, "dropout": 0.5}).state_dict()
    tensors = {f"epoch-{e}/{name}": v.numpy() for e, state in states.items() for name, v in state.items()}
    network = {"module": "fcnn", "parameters": {"width": 5, "dropout": 0.5}, "shape": [4, 4, 1], "classes": 3}
    # Epoch 10 must not be taken for epoch 1, nor 2 be the last because its digit is.
    write_tensors(tmp_path / "v.safetensors", tensors, {"network": network, "checkpoints": [0, 2, 10]})
    for epoch, expected in ((0, 0), (2, 2), (10, 10), (None, 10)):
        model, facts = load_victim(tmp_path / "v.safetensors", epoch)
        assert not model.training
        assert facts["network"] == network
        for name, value in model.state_dict().items():
            assert np.array_equal(value, states[expected][name])
    # The file is mapped read-only: a model that trains on must not write into it.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    again, _ = load_victim(tmp_path / "v.safetensors")
    assert torch.equal(again.state_dict()["dense1.weight"], states[10]["dense1.weight"])


SIZE = (8, 8, 1)


def made(weight: float = 0.5, width: int = 6) -> tuple[Bottleneck, torch.Tensor]:
    torch.manual_seed(0)
    return Bottleneck(5, width, weight), torch.randn(4, 5)


def test_noise_that_is_handed_in_is_scaled_by_the_deviations() -> None:
    layer, x = made()
    mean, raw = layer.encoder(x).chunk(2, 1)
    # Without noise the means are decoded.
    torch.testing.assert_close(layer(x), layer.decoder(mean))
    layer.keep = layer.draw((4,), torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x), layer.decoder(mean + softplus(raw) * layer.keep))


def divergence_of(layer: Bottleneck, x: torch.Tensor) -> torch.Tensor:
    """Return the divergence of the authors' loss, written out."""
    mean, raw = layer.encoder(x).chunk(2, 1)
    deviation = softplus(raw)
    return -0.5 * (1 + 2 * deviation.log() - mean**2 - deviation**2).sum(1).mean() / math.log(2)


@pytest.mark.parametrize("weight", [0.0, 1e-3, 0.5])
def test_the_gradient_is_that_of_the_loss_and_the_divergence(weight: float) -> None:
    found = []
    for own in (weight, 0.0):
        layer, x = made(own)
        layer.keep = layer.draw((4,), torch.Generator().manual_seed(1))
        loss = (layer(x) ** 2).mean()
        (loss + (weight - own) * divergence_of(layer, x)).backward()
        found.append([value.grad for value in layer.parameters()])
    for value, expected in zip(*found, strict=True):
        torch.testing.assert_close(value, expected)


def test_clients_at_once_have_the_gradients_of_clients_alone() -> None:
    model = victims.build("precode", SIZE, 3, {}).eval()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    rng = torch.Generator().manual_seed(0)
    masks = draw_masks(model, (2, 4), rng)
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {"bottleneck.keep": (2, 4, 256)}
    images, labels = torch.rand(2, 4, 1, 8, 8), torch.tensor([[0, 1, 2, 0], [1, 1, 2, 2]])

    def loss(
        parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, keep: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        return cross_entropy(functional_call(model, {**parameters, **keep}, (x,)), y)

    together = vmap(grad(loss), in_dims=(None, 0, 0, 0))(weights, images, labels, masks)
    for client in range(2):
        own = {name: mask[client] for name, mask in masks.items()}
        alone = grad(loss)(weights, images[client], labels[client], own)
        for name, value in alone.items():
            torch.testing.assert_close(together[name][client], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("network", "reads"), [("mlp", 1024), ("lenet-dlg", 48)])
def test_the_bottleneck_stands_before_the_last_layer(network: str, reads: int) -> None:
    model = victims.build("precode", SIZE, 3, {"network": network})
    *_, bottleneck, last = model.children()
    assert bottleneck.encoder.in_features == bottleneck.decoder.out_features == reads
    assert last.out_features == 3
    assert model.eval()(torch.rand(2, 1, 8, 8)).shape == (2, 3)


def slope_of_slopes(written: bool) -> torch.Tensor:
    """Return the derivative in the input of the squared gradient of the encoder's weights.

    written: whether the divergence is written out in the loss, and the layer brings none.
    """
    layer, x = made(0.0 if written else 0.5)
    loss = (layer(x.requires_grad_(True)) ** 2).mean() + 0.5 * written * divergence_of(layer, x)
    first = torch.autograd.grad(loss, list(layer.encoder.parameters()), create_graph=True)
    (second,) = torch.autograd.grad(sum((value.square().sum() for value in first), torch.zeros(())), x)
    return second


def test_the_divergence_s_gradient_has_the_gradient_of_what_is_written_out() -> None:
    torch.testing.assert_close(slope_of_slopes(False), slope_of_slopes(True))
