"""The victims against Tables I and II of the paper: shapes, sizes, initialisation, words."""

import csv
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn

from leakbench.base.errors import Unfit
from leakbench.networks import generators, victims
from leakbench.networks.layers import dense_input, describe, first_dense

ROOT = Path(__file__).parents[4]
MNIST, CIFAR10 = (28, 28, 1), (32, 32, 3)


def shapes(model: nn.Module, shape: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
    """Run two black images through and return what each layer hands on."""
    seen: dict[str, tuple[int, ...]] = {}
    for name, layer in model.named_children():
        layer.register_forward_hook(lambda _, __, out, name=name: seen.update({name: tuple(out.shape)}))
    model(torch.zeros(2, shape[2], shape[0], shape[1]))
    return seen


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


MLP = 128 * 128 + 128 + 64 * 128 + 64 + 10 * 64 + 10
IMAGENET = (224, 224, 3)
# Network, its parameters, the images, and how many weights it has, by hand or as it was published. He et al.
# print 0.27 M and 0.46 M for shortcuts without parameters; a projection is two 1×1 convolutions with norms.
SIZES: list[tuple[str, dict[str, Any], tuple[int, int, int], int]] = [
    ("fcnn", {}, MNIST, 128 * 784 + 128 + MLP),
    ("fcnn", {"width": 256, "dropout": 0.5}, MNIST, 256 * 784 + 256 + 128 * 256 + 128 + 64 * 128 + 64 + 650),
    ("fcnn", {}, CIFAR10, 128 * 3072 + 128 + MLP),
    ("cnn", {}, MNIST, 32 * 9 + 32 + 128 * 5408 + 128 + 64 * 128 + 64 + 10 * 64 + 10),
    ("cnn", {}, CIFAR10, 32 * 27 + 32 + 128 * 7200 + 128 + 64 * 128 + 64 + 10 * 64 + 10),
    ("lenet-grnn", {}, CIFAR10, 6 * 76 + 16 * 151 + 120 * 401 + 84 * 121 + 10 * 85),
    ("lenet-fedkl", {}, CIFAR10, 6 * 76 + 2 * 6 + 16 * 151 + 2 * 16 + 120 * 401 + 84 * 121 + 10 * 85),
    ("cifar-resnet", {"depth": 20, "shortcut": "zero-padding"}, CIFAR10, 269_722),
    ("cifar-resnet", {"depth": 32, "shortcut": "zero-padding"}, CIFAR10, 464_154),
    ("cifar-resnet", {"depth": 20}, CIFAR10, 269_722 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64),
    ("resnet", {"depth": 34}, IMAGENET, 21_797_672 - 990 * 513),
    ("vgg", {"batch_norm": True}, IMAGENET, 138_365_992 - 990 * 4097),
]


@pytest.mark.parametrize(("module", "parameters", "shape", "size"), SIZES)
def test_a_network_has_its_published_size(
    module: str, parameters: dict[str, Any], shape: tuple[int, int, int], size: int
) -> None:
    with torch.device("meta"):
        assert count(victims.build(module, shape, 10, parameters)) == size


@pytest.mark.parametrize("module", ["fcnn", "cnn"])
def test_only_the_named_activation_changes(module: str) -> None:
    x, outcomes, states = torch.rand(3, 1, 28, 28), [], []
    kinds = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "linear": torch.clone}
    for name, function in kinds.items():
        torch.manual_seed(0)
        model = victims.build(module, MNIST, 10, {"activation": name, "dropout": 0.5}).eval()
        layers, kept = dict(model.named_children()), []
        for layer in ("dense1", "activation1"):
            layers[layer].register_forward_hook(lambda _, __, out, kept=kept: kept.append(out))
        outcomes.append(model(x))
        states.append(model.state_dict())
        assert torch.equal(kept[1], function(kept[0]))
        assert isinstance(layers["activation2"], nn.ReLU)
        rows = [row for row in describe(model) if row["layer"] == "dense"]
        assert [row.get("activation") for row in rows[:2]] == [None if name == "linear" else name, "relu"]
    assert not any(torch.equal(a, b) for i, a in enumerate(outcomes) for b in outcomes[:i])
    # Victims of one seed share their weights, whatever their activation.
    assert all(torch.equal(state[n], value) for state in states for n, value in states[0].items())


FIDEL = {"fidel-mnist": ((32, 13, 13), MNIST), "fidel-cifar10": ((32, 15, 15), CIFAR10)}


@pytest.mark.parametrize("module", ["fcnn", "cnn", *FIDEL])
def test_weights_are_glorot_uniform_and_biases_zero(module: str) -> None:
    torch.manual_seed(1)
    if module in FIDEL:
        model = generators.build(module, *FIDEL[module], {}).eval()
        out = model(100 * torch.randn(3, *FIDEL[module][0]))
        assert 0 <= out.min() < out.max() <= 1
    else:
        model = victims.build(module, CIFAR10, 10, {})
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            area = layer.weight[0, 0].numel() if layer.weight.dim() == 4 else 1
            bound = sqrt(6 / (area * (layer.weight.shape[0] + layer.weight.shape[1])))
            weight = layer.weight.detach()
            # The largest of n uniform draws lies within 10/n of the bound but for a chance of e^-10.
            assert bound * (1 - 10 / weight.numel()) <= weight.abs().max() <= bound
            assert weight.mean().item() == pytest.approx(0, abs=5 * bound / sqrt(3 * weight.numel()))
            assert weight.var().item() == pytest.approx(bound**2 / 3, rel=5 / sqrt(weight.numel()))
            assert not layer.bias.any()


class Flattens(nn.Module):
    """A network that flattens by a function, behind a dense layer that reads something else."""

    def __init__(self, order: tuple[int, ...] = (0, 1, 2, 3)) -> None:
        super().__init__()
        self.order = order
        self.weigh, self.weighed = nn.Linear(2, 2), nn.Identity()
        self.conv, self.head = nn.Conv2d(1, 2, 3), nn.Linear(2 * 26 * 26, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        y = y * self.weigh(y.mean((2, 3)))[:, :, None, None]
        return self.head(torch.relu_(self.weighed(y)).permute(self.order).reshape(len(x), -1))


def test_what_a_function_flattens_is_found_where_a_module_returned_it() -> None:
    model = torchvision.models.resnet18(num_classes=10).eval()
    name, read = first_dense(model, torch.rand(1, 3, 32, 32))
    assert (name, read.shape) == ("fc", (1, 512, 1, 1))
    name, read = first_dense(Flattens(), torch.rand(1, 1, 28, 28))
    assert (name, read.shape) == ("head", (1, 2, 26, 26))


class Calls(nn.Module):
    """A network that calls a function between a convolution and a dense layer."""

    def __init__(self, between: Callable[[Tensor], Tensor], conv: nn.Module) -> None:
        super().__init__()
        self.between, self.conv, self.head = between, conv, nn.LazyLinear(10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.between(self.conv(x)))
        return found


@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("conv", [nn.Conv2d(1, 2, 3), nn.Identity()])
@pytest.mark.parametrize(
    "between",
    [lambda x: torch.flatten(torch.nn.functional.relu(x), 1), lambda x: (x.flatten(1) - 0.5) / 0.2,
     lambda x: torch.relu(x.reshape(len(x), -1)),
     lambda x: nn.Sigmoid()(2 * (1 - x)).view(len(x), -1).sub_(1),
     lambda x: torch.nn.functional.dropout(x.flatten(1), training=False).clamp(0, 1)],
)  # fmt: skip
def test_functions_hide_no_flattening(between: Callable[[Tensor], Tensor], conv: nn.Module, n: int) -> None:
    model, x = Calls(between, conv).eval(), torch.rand(n, 1, 28, 28)
    model(x)
    name, read = first_dense(model, x)
    assert (name, read.shape) == ("head", conv(x).shape)
    torch.testing.assert_close(read, between(conv(x)).view_as(read))


@pytest.mark.parametrize(
    "model",
    [Calls(lambda x: x.flatten(1).flip(1), nn.Conv2d(1, 2, 3)),
     Calls(lambda x: x.flatten(1).cumsum(1), nn.Conv2d(1, 2, 3)), Flattens((0, 1, 3, 2)),
     nn.Sequential(nn.Conv2d(1, 1, 3))],
)  # fmt: skip
def test_a_network_whose_flattened_input_nobody_sees_is_refused(model: nn.Module) -> None:
    """Functions that mix values hide it too."""
    x = torch.rand(2, 1, 28, 28)
    model(x)
    with pytest.raises(Unfit, match="no dense layer is seen to read a flattened record"):
        first_dense(model, x)


@pytest.mark.parametrize(("module", "expected"), [("fcnn", (1, 28, 28)), ("cnn", (32, 13, 13))])
def test_dense_input_is_what_the_first_dense_layer_multiplies(module: str, expected: tuple[int, ...]) -> None:
    model, x = victims.build(module, MNIST, 10, {}).eval(), torch.rand(4, 1, 28, 28)
    read: list[torch.Tensor] = []
    model.get_submodule("dense1").register_forward_hook(lambda _, inputs, __: read.append(inputs[0]))
    seen = dense_input(model, x)
    assert seen.shape == (4, *expected)
    assert torch.equal(seen.flatten(1), read[-1])
    assert not seen.requires_grad
    # No hook is left, not even behind an error.
    with pytest.raises(RuntimeError):
        dense_input(model, torch.rand(1, 2, 29, 27))
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert sum(len(layer._forward_hooks) for layer in model.modules()) == 1


CELLS = ("layer", "size", "stride", "padding", "activation")


def published(table: str) -> list[dict[str, str]]:
    """Return the layers of one printed table, without the input row and what is blank, softmax or none."""
    with (ROOT / "papers/fidel/tables/tables-1-4.csv").open() as file:
        rows = [each for each in csv.DictReader(file) if each["table"] == table]
    rows = [each for each in rows if each["layer_index"] not in ("", "0")]
    assert rows
    return [{c: each[c] for c in CELLS if each[c] not in ("", "softmax", "none")} for each in rows]


@pytest.mark.parametrize(
    ("table", "model"),
    [("table-1", lambda: victims.build("fcnn", MNIST, 10, {})),
     ("table-2", lambda: victims.build("cnn", CIFAR10, 10, {})),
     ("table-3", lambda: generators.build("fidel-mnist", (32, 13, 13), MNIST, {})),
     ("table-4", lambda: generators.build("fidel-cifar10", (32, 15, 15), CIFAR10, {"third": "same"}))],
)  # fmt: skip
def test_layers_are_described_as_the_papers_tables_print_them(table: str, model: Any) -> None:
    built, printed = describe(model()), published(table)
    # The loss takes the softmax, so the victims' tables end one activation early; Table I starts at its dense
    # layer.
    if table == "table-1":
        assert built.pop(0) == {"layer": "flatten"}
    if table == "table-3":
        assert built[-1] == {"layer": "reshape", "size": "28,28"}
    for row, wanted in zip(built, printed, strict=True):
        # The table leaves defaults blank.
        assert {cell: row.get(cell, "") for cell in wanted} == wanted
        assert "activation" in wanted or "activation" not in row


def test_the_one_deviation_from_table_4_shows() -> None:
    built = describe(generators.build("fidel-cifar10", (32, 15, 15), CIFAR10, {}))
    own, printed = (
        [row["padding"] for row in rows if "padding" in row] for rows in (built, published("table-4"))
    )
    assert own == ["same", "same", "valid", "valid", "same"]
    assert printed == ["same", "same", "same", "valid", "same"]


def test_the_two_lenets_of_code_layer_by_layer() -> None:
    torch.manual_seed(0)
    model = victims.build("lenet-grnn", CIFAR10, 100, {})
    seen = shapes(model, CIFAR10)
    names = ("pool1", "flatten", "dense1", "dense2", "dense3")
    assert [seen[name][1:] for name in names] == [(6, 14, 14), (400,), (120,), (84,), (100,)]
    every = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert float(every.abs().max()) <= 0.5
    assert float(every.std()) == pytest.approx(0.5 / sqrt(3), rel=0.02)
    for statistics in ("running", "batch"):
        model = victims.build("lenet-fedkl", CIFAR10, 100, {"statistics": statistics})
        seen = shapes(model, CIFAR10)
        names = ("pool1", "pool2", "conv3", "dense1", "dense2")
        assert [seen[name][1:] for name in names] == [(6, 14, 14), (16, 5, 5), (120, 1, 1), (84,), (100,)]
        norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
        assert [layer.running_mean is None for layer in norms] == [statistics == "batch"] * 2
    with pytest.raises(ValueError, match="smaller than 32×32"):
        victims.build("lenet-fedkl", MNIST, 10, {})


def test_densenet_answers_as_torchvisions_does_and_overwrites_nothing() -> None:
    torch.manual_seed(0)
    model = victims.build("densenet", CIFAR10, 40, {"momentum": 0.3}).eval()
    plain = torchvision.models.densenet121(num_classes=40).eval()
    plain.load_state_dict(model.state_dict())
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(model(images), plain(images))
    assert not any(getattr(layer, "inplace", False) for layer in model.modules())
    for own, norms in ((model, 121), (victims.build("resnet", CIFAR10, 10, {"momentum": 0.3}), 20)):
        momenta = [layer.momentum for layer in own.modules() if isinstance(layer, nn.BatchNorm2d)]
        assert momenta == [0.3] * norms
    small = victims.build("densenet", CIFAR10, 40, {"stem": "small", "growth": 4})
    assert shapes(small.features, CIFAR10)["denseblock1"] == (2, 8 + 6 * 4, 32, 32)
    with pytest.raises(ValueError, match="three channels, not 1"):
        victims.build("densenet", MNIST, 10, {})


def test_the_resnet18_of_grnns_code_is_torchvisions_but_for_what_is_named() -> None:
    own = {"activation": "sigmoid", "stem": "small", "statistics": "batch", "bound": 0.5}
    model, plain = (victims.build("resnet", CIFAR10, 100, given) for given in (own, {}))
    sizes, others = ({n: p.shape for n, p in each.named_parameters()} for each in (model, plain))
    assert {name for name in sizes if sizes[name] != others[name]} == {"conv1.weight"}
    kinds, plain_kinds = ([type(layer) for layer in each.modules()] for each in (model, plain))
    assert not {nn.ReLU, nn.MaxPool2d} & set(kinds)
    assert kinds.count(nn.Sigmoid) == plain_kinds.count(nn.ReLU)
    assert not any("running" in name for name in model.state_dict())
    assert all(float(p.abs().max()) <= 0.5 for p in model.parameters())


@pytest.mark.parametrize(("stem", "side"), [("large", 8), ("unpooled", 16), ("small", 32)])
def test_a_stem_without_its_pool_has_four_times_the_area(stem: str, side: int) -> None:
    model = victims.build("resnet", CIFAR10, 10, {"depth": 18, "stem": stem})
    seen: list[torch.Tensor] = []
    model.get_submodule("layer1").register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(torch.rand(2, 3, 32, 32))
    assert seen[0].shape[-1] == side
