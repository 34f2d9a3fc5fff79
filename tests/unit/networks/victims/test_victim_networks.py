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


@pytest.mark.parametrize(("shape", "inputs"), [(MNIST, 784), (CIFAR10, 3072)])
def test_table_1_layer_by_layer(shape: tuple[int, int, int], inputs: int) -> None:
    model = victims.build("fcnn", shape, 10, {})
    seen = shapes(model, shape)
    wide = ("flatten", "dense1", "activation1", "dropout", "dense2", "dense3", "dense4")
    assert [seen[name][1] for name in wide] == [inputs, 128, 128, 128, 128, 64, 10]
    count = 128 * inputs + 128 + 128 * 128 + 128 + 64 * 128 + 64 + 10 * 64 + 10
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize(("shape", "pooled", "flat"), [(MNIST, 13, 5408), (CIFAR10, 15, 7200)])
def test_table_2_layer_by_layer(shape: tuple[int, int, int], pooled: int, flat: int) -> None:
    model = victims.build("cnn", shape, 10, {})
    seen = shapes(model, shape)
    assert seen["conv1"] == (2, 32, shape[0] - 2, shape[1] - 2)
    assert seen["pool1"] == (2, 32, pooled, pooled)
    assert [seen[name][1] for name in ("flatten", "dense1", "dense2", "dense3")] == [flat, 128, 64, 10]
    count = 32 * shape[2] * 9 + 32 + 128 * flat + 128 + 64 * 128 + 64 + 10 * 64 + 10
    assert sum(p.numel() for p in model.parameters()) == count


@pytest.mark.parametrize("module", ["fcnn", "cnn"])
def test_only_the_named_activation_changes(module: str) -> None:
    x = torch.rand(3, 1, 28, 28)
    outcomes = {}
    for name, function in {
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "linear": torch.clone,
    }.items():
        torch.manual_seed(0)
        model = victims.build(module, MNIST, 10, {"activation": name}).eval()
        layers = dict(model.named_children())
        before: list[torch.Tensor] = []
        layers["dense1"].register_forward_hook(lambda _, __, out, kept=before: kept.append(out))
        after: list[torch.Tensor] = []
        layers["activation1"].register_forward_hook(lambda _, __, out, kept=after: kept.append(out))
        outcomes[name] = model(x)
        assert torch.equal(after[0], function(before[0]))
        assert isinstance(layers["activation2"], nn.ReLU)
    pairs = list(outcomes.values())
    assert not any(torch.equal(a, b) for i, a in enumerate(pairs) for b in pairs[:i])


def test_width_changes_the_first_layer_and_what_reads_it() -> None:
    model = victims.build("fcnn", MNIST, 10, {"width": 256, "dropout": 0.5})
    assert [tuple(layer.weight.shape) for layer in model.modules() if isinstance(layer, nn.Linear)] == [
        (256, 784), (128, 256), (64, 128), (10, 64)
    ]  # fmt: skip
    assert model.get_submodule("dropout").width == 256


@pytest.mark.parametrize("module", ["fcnn", "cnn"])
def test_weights_are_glorot_uniform_and_biases_zero(module: str) -> None:
    torch.manual_seed(1)
    model = victims.build(module, CIFAR10, 10, {})
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            area = layer.weight[0, 0].numel() if layer.weight.dim() == 4 else 1
            bound = sqrt(6 / (area * (layer.weight.shape[0] + layer.weight.shape[1])))
            weight = layer.weight.detach()
            assert weight.abs().max() <= bound
            # The largest of n uniform draws lies within 10/n of the bound but for a chance of e^-10.
            assert weight.abs().max() >= bound * (1 - 10 / weight.numel())
            assert weight.mean().item() == pytest.approx(0, abs=5 * bound / sqrt(3 * weight.numel()))
            assert weight.var().item() == pytest.approx(bound**2 / 3, rel=5 / sqrt(weight.numel()))
            assert not layer.bias.any()


def test_victims_of_one_seed_share_their_weights_whatever_their_activation_and_dropout() -> None:
    states = []
    for parameters in ({}, {"activation": "tanh"}, {"activation": "sigmoid", "dropout": 0.5}):
        torch.manual_seed(3)
        states.append(victims.build("fcnn", MNIST, 10, parameters).state_dict())
    assert all(list(s) == list(states[0]) for s in states)
    assert all(torch.equal(s[name], states[0][name]) for s in states for name in s)


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
    [
        lambda x: torch.flatten(torch.nn.functional.relu(x), 1),
        lambda x: (x.flatten(1) - 0.5) / 0.2,
        lambda x: torch.relu(x.reshape(len(x), -1)),
        lambda x: nn.Sigmoid()(2 * (1 - x)).view(len(x), -1).sub_(1),
        lambda x: torch.nn.functional.dropout(x.flatten(1), training=False).clamp(0, 1),
    ],
)
def test_elementwise_functions_hide_no_flattening(
    between: Callable[[Tensor], Tensor], conv: nn.Module, n: int
) -> None:
    model, x = Calls(between, conv).eval(), torch.rand(n, 1, 28, 28)
    model(x)
    name, read = first_dense(model, x)
    assert (name, read.shape) == ("head", conv(x).shape)
    torch.testing.assert_close(read, between(conv(x)).view_as(read))


@pytest.mark.parametrize(
    "model",
    [
        Calls(lambda x: x.flatten(1).flip(1), nn.Conv2d(1, 2, 3)),
        Calls(lambda x: x.flatten(1).cumsum(1), nn.Conv2d(1, 2, 3)),
        Flattens((0, 1, 3, 2)),
        nn.Sequential(nn.Conv2d(1, 1, 3)),
    ],
)
def test_a_network_whose_flattened_input_nobody_sees_is_refused(model: nn.Module) -> None:
    """Functions that mix values hide it too."""
    x = torch.rand(2, 1, 28, 28)
    model(x)
    with pytest.raises(Unfit, match="no dense layer is seen to read a flattened record"):
        first_dense(model, x)


@pytest.mark.parametrize(("module", "expected"), [("fcnn", (1, 28, 28)), ("cnn", (32, 13, 13))])
def test_dense_input_is_what_the_first_dense_layer_multiplies(module: str, expected: tuple[int, ...]) -> None:
    model = victims.build(module, MNIST, 10, {}).eval()
    x = torch.rand(4, 1, 28, 28)
    read: list[torch.Tensor] = []
    model.get_submodule("dense1").register_forward_hook(lambda _, inputs, __: read.append(inputs[0]))
    seen = dense_input(model, x)
    assert seen.shape == (4, *expected)
    assert torch.equal(seen.flatten(1), read[-1])
    assert not seen.requires_grad
    count = len(read)
    model(x)
    assert len(read) == count + 1
    assert not any(layer._forward_pre_hooks for layer in model.modules())


def test_dense_input_leaves_no_hook_behind_an_error() -> None:
    model = victims.build("cnn", MNIST, 10, {})
    with pytest.raises(RuntimeError):
        dense_input(model, torch.rand(1, 3, 28, 28))
    assert not any(layer._forward_pre_hooks or layer._forward_hooks for layer in model.modules())


def published(table: str) -> list[dict[str, str]]:
    """Return the layers of one printed table, without the input row."""
    with (ROOT / "papers/fidel/tables/tables-1-4.csv").open() as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if row["table"] == table and row["layer_index"] not in ("", "0")
        ]
    assert rows
    return rows


def as_printed(built: list[dict[str, str]], printed: list[dict[str, str]]) -> list[dict[str, str]]:
    """Keep of `built` the cells that the table prints: it leaves defaults blank and names softmax and
    none."""
    kept = []
    for row, print_ in zip(built, printed, strict=True):
        cells = ("layer", "size", "stride", "padding", "activation")
        kept.append(
            {cell: row.get(cell, "") for cell in cells if print_[cell] not in ("", "softmax", "none")}
        )
        if print_["activation"] in ("softmax", "none", ""):
            assert "activation" not in row
    return kept


@pytest.mark.parametrize(
    ("table", "model"),
    [
        ("table-1", lambda: victims.build("fcnn", MNIST, 10, {})),
        ("table-2", lambda: victims.build("cnn", CIFAR10, 10, {})),
        ("table-3", lambda: generators.build("fidel-mnist", (32, 13, 13), MNIST, {})),
        ("table-4", lambda: generators.build("fidel-cifar10", (32, 15, 15), CIFAR10, {"third": "same"})),
    ],
)
def test_layers_are_described_as_the_papers_tables_print_them(table: str, model: Any) -> None:
    built, printed = describe(model()), published(table)
    # The loss takes the softmax, so the victims' tables end one activation early; Table I starts at its dense
    # layer.
    if table == "table-1":
        assert built.pop(0) == {"layer": "flatten"}
    if table == "table-3":
        assert built[-1] == {"layer": "reshape", "size": "28,28"}
    cells = ("layer", "size", "stride", "padding", "activation")
    expected = [{c: row[c] for c in cells if row[c] not in ("", "softmax", "none")} for row in printed]
    assert as_printed(built, printed) == expected


def test_the_one_deviation_from_table_4_shows() -> None:
    built = describe(generators.build("fidel-cifar10", (32, 15, 15), CIFAR10, {}))
    printed = published("table-4")
    assert [r["padding"] for r in built if "padding" in r] == ["same", "same", "valid", "valid", "same"]
    assert [r["padding"] for r in printed if r["padding"]] == ["same", "same", "same", "valid", "same"]


def test_the_activation_under_test_is_described() -> None:
    for activation in ("sigmoid", "tanh"):
        rows = describe(victims.build("fcnn", MNIST, 10, {"activation": activation, "dropout": 0.5}))
        assert rows[1] == {"layer": "dense", "size": "128", "activation": activation}
        assert rows[2]["activation"] == "relu"
    assert describe(victims.build("cnn", MNIST, 10, {"activation": "linear"}))[3] == {
        "layer": "dense",
        "size": "128",
    }


def test_the_lenet_of_grnns_code_layer_by_layer() -> None:
    torch.manual_seed(0)
    model = victims.build("lenet-grnn", CIFAR10, 100, {})
    seen = shapes(model, CIFAR10)
    assert seen["pool1"] == (2, 6, 14, 14)
    assert seen["flatten"] == (2, 400)
    assert [seen[name][1] for name in ("dense1", "dense2", "dense3")] == [120, 84, 100]
    count = 6 * 76 + 16 * 151 + 120 * 401 + 84 * 121 + 100 * 85
    assert sum(p.numel() for p in model.parameters()) == count
    every = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert float(every.abs().max()) <= 0.5
    assert float(every.std()) == pytest.approx(0.5 / sqrt(3), rel=0.02)


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_the_second_lenet_of_fedkl_layer_by_layer(statistics: str) -> None:
    model = victims.build("lenet-fedkl", CIFAR10, 100, {"statistics": statistics})
    seen = shapes(model, CIFAR10)
    assert seen["pool1"] == (2, 6, 14, 14)
    assert seen["pool2"] == (2, 16, 5, 5)
    assert seen["conv3"] == (2, 120, 1, 1)
    assert [seen[name][1] for name in ("dense1", "dense2")] == [84, 100]
    count = 6 * 76 + 2 * 6 + 16 * 151 + 2 * 16 + 120 * 401 + 84 * 121 + 100 * 85
    assert sum(p.numel() for p in model.parameters()) == count
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 2
    assert all((layer.running_mean is None) == (statistics == "batch") for layer in norms)
    with pytest.raises(ValueError, match="smaller than 32×32"):
        victims.build("lenet-fedkl", MNIST, 10, {})


def test_densenet_answers_as_torchvisions_does_and_overwrites_nothing() -> None:
    from torchvision.models import densenet121

    torch.manual_seed(0)
    model, plain = (
        victims.build("densenet", CIFAR10, 40, {"momentum": 0.3}).eval(),
        densenet121(num_classes=40).eval(),
    )
    plain.load_state_dict(model.state_dict())
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(model(images), plain(images))
    assert not any(getattr(layer, "inplace", False) for layer in model.modules())
    norms = [layer for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)]
    assert len(norms) == 121
    assert {layer.momentum for layer in norms} == {0.3}
    small = victims.build("densenet", CIFAR10, 40, {"stem": "small", "growth": 4})
    seen = shapes(small.features, CIFAR10)
    assert seen["denseblock1"] == (2, 8 + 6 * 4, 32, 32)
    with pytest.raises(ValueError, match="three channels, not 1"):
        victims.build("densenet", MNIST, 10, {})


def test_a_resnets_batch_norm_follows_its_momentum() -> None:
    model = victims.build("resnet", CIFAR10, 10, {"momentum": 0.3})
    assert {layer.momentum for layer in model.modules() if isinstance(layer, nn.BatchNorm2d)} == {0.3}


def test_the_resnet18_of_grnns_code_is_torchvisions_but_for_what_is_named() -> None:
    own = {"activation": "sigmoid", "stem": "small", "statistics": "batch", "bound": 0.5}
    torch.manual_seed(0)
    model = victims.build("resnet", CIFAR10, 100, own)
    plain = victims.build("resnet", CIFAR10, 100, {})
    differ = {
        name for name, p in plain.named_parameters() if p.shape != dict(model.named_parameters())[name].shape
    }
    assert differ == {"conv1.weight"}
    kinds = [type(layer) for layer in model.modules()]
    assert nn.ReLU not in kinds
    assert nn.MaxPool2d not in kinds
    assert kinds.count(nn.Sigmoid) == [type(layer) for layer in plain.modules()].count(nn.ReLU)
    assert not any("running" in name for name in model.state_dict())
    assert all(float(p.abs().max()) <= 0.5 for p in model.parameters())
    # The first stage sees every pixel.
    seen: list[torch.Size] = []
    model.layer1.register_forward_hook(lambda _, __, out: seen.append(out.shape))
    model(torch.rand(2, 3, 32, 32))
    assert seen == [(2, 64, 32, 32)]
