"""AGIC's weights of layers: Table I, Eqn 7 and 8, and what the paper leaves open."""

import pytest
import torch
from torch import Tensor, nn
from trial_networks import gradient, network

from leakbench.attacks.matching.objectives.layer_weights import (
    Shape,
    curve,
    parameter_weights,
    shut_share,
    zero_share,
)
from leakbench.networks import victims

# Table I: through (1, 1) and (21, beta); convex or concave as named.
TABLE_1: dict[str, tuple[Shape, float, int]] = {
    "equal": ("one", 1.0, 0),
    "decreasing convex": ("logarithmic", 0.5, 1),
    "decreasing concave": ("exponential", 0.5, -1),
    "decreasing linear": ("linear", 0.5, 0),
    "increasing convex": ("exponential", 2.0, 1),
    "increasing concave": ("logarithmic", 2.0, -1),
    "increasing linear": ("linear", 2.0, 0),
}


@pytest.mark.parametrize("name", list(TABLE_1))
def test_the_seven_functions_of_table_1(name: str) -> None:
    shape, beta, bend = TABLE_1[name]
    weights = curve(shape, 21, beta)
    assert weights.shape == (21,)
    assert float(weights[0]) == 1
    assert float(weights[-1]) == pytest.approx(beta, rel=1e-12)
    steps, turns = weights.diff(), weights.diff().diff()
    if beta == 1:
        assert not steps.any()
    else:
        assert bool((steps * (beta - 1) >= 0).all())
        assert bool((steps[-1] * (beta - 1) > 0).all())
    if bend:
        assert bool((turns * bend >= 0).all())
        assert float((turns * bend).max()) > 1e-3
    else:
        assert turns.abs().max() < 1e-12


def test_the_curves_are_those_of_exp_and_log() -> None:
    place = torch.arange(1, 6, dtype=torch.float64)
    for shape, function in (("exponential", torch.exp), ("logarithmic", torch.log)):
        rising = (function(place) - function(place[0])) / (function(place[-1]) - function(place[0]))
        torch.testing.assert_close(curve(shape, 5, 3.0), 1 + 2 * rising, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", ["one", "linear", "exponential", "logarithmic"])
def test_one_convolution_has_weight_one_and_many_overflow_nothing(shape: Shape) -> None:
    assert curve(shape, 1, 50.0).tolist() == [1]
    assert bool(curve(shape, 2000, 50.0).isfinite().all())


def test_zero_share_counts_exact_zeros_of_each_trial() -> None:
    observed = torch.tensor([[[0.0, 1e-30], [0.0, -0.0]], [[1.0, 2.0], [3.0, 0.0]]])
    assert zero_share(observed).tolist() == [0.75, 0.25]


def resnet(width: int = 2) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return ResNet20-4 and two trials' gradients of ones, one layer of them partly zero."""
    model = network("resnet20_4", {"width": width})
    observed = {name: torch.ones(2, *p.shape, dtype=torch.float64) for name, p in model.named_parameters()}
    observed["layer1.0.conv1.weight"][1].view(-1)[: observed["layer1.0.conv1.weight"][1].numel() // 4] = 0
    return model, observed


def convolutions(model: nn.Module) -> list[str]:
    return [name for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d)]


def test_resnet20_4_has_21_convolutions_which_the_curve_counts() -> None:
    model, observed = resnet()
    names = convolutions(model)
    assert len(names) == 21
    assert len(convolutions(victims.build("resnet20-4", (32, 32, 3), 10, {}))) == 21
    weights = parameter_weights(model, observed, "linear", 50.0, False, "following", "parameters")
    assert set(weights) == {name for name, _ in model.named_parameters()}
    found = [float(weights[f"{name}.weight"][0]) for name in names]
    assert found == pytest.approx(curve("linear", 21, 50.0).tolist(), rel=1e-12)


def test_the_dense_layer_has_the_mean_of_the_curve() -> None:
    model, observed = resnet()
    for relu in (False, True):
        weights = parameter_weights(model, observed, "exponential", 9.0, relu, "following", "parameters")
        for part in ("weight", "bias"):
            expected = float(curve("exponential", 21, 9.0).mean())
            assert weights[f"dense.{part}"].tolist() == pytest.approx([expected] * 2, rel=1e-12)


def test_the_relu_modifier_divides_by_the_share_that_is_not_zero() -> None:
    """Equation 8, trial by trial."""
    model, observed = resnet(4)
    plain = parameter_weights(model, observed, "linear", 50.0, False, "one", "parameters")
    modified = parameter_weights(model, observed, "linear", 50.0, True, "one", "parameters")
    for name in plain:
        factor = [1, 1 / (1 - 0.25)] if name == "layer1.0.conv1.weight" else [1, 1]
        expected = (plain[name] * torch.tensor(factor, dtype=torch.float64)).tolist()
        assert modified[name].tolist() == pytest.approx(expected, rel=1e-12), name


def test_a_layer_of_zeros_alone_keeps_a_finite_weight() -> None:
    model, observed = resnet()
    observed["conv1.weight"].zero_()
    weights = parameter_weights(model, observed, "linear", 50.0, True, "following", "parameters")
    assert all(bool(weight.isfinite().all()) for weight in weights.values())


@pytest.mark.parametrize("norms", ["following", "one", "none"])
def test_batch_norm_follows_its_convolution_or_has_one_or_none(norms: str) -> None:
    model, observed = resnet()
    weights = parameter_weights(model, observed, "linear", 50.0, True, norms, "parameters")
    for norm, conv in (
        ("bn1", "conv1"),
        ("layer1.0.bn1", "layer1.0.conv1"),
        ("layer2.0.bn2", "layer2.0.conv2"),
        ("layer2.0.downsample.1", "layer2.0.downsample.0"),
        ("layer3.2.bn2", "layer3.2.conv2"),
    ):
        expected = {"following": weights[f"{conv}.weight"], "one": torch.ones(2), "none": torch.zeros(2)}[
            norms
        ]
        for part in ("weight", "bias"):
            torch.testing.assert_close(weights[f"{norm}.{part}"], expected.double(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("normalise", ["none", "cifar10"])
def test_order_forward_reads_a_projection_before_its_blocks_convolutions(normalise: str) -> None:
    model = network("resnet20_4", {"width": 2, "normalise": normalise})
    prefix = "" if normalise == "none" else "network."
    observed = {name: torch.ones(1, *p.shape, dtype=torch.float64) for name, p in model.named_parameters()}

    def places(order: str) -> dict[str, int]:
        weights = parameter_weights(model, observed, "linear", 21.0, False, "one", order)
        # With beta = 21 the i-th convolution has weight i.
        return {
            name.removeprefix(prefix): round(float(weights[f"{name}.weight"])) for name in convolutions(model)
        }

    stated, forward = places("parameters"), places("forward")
    assert sorted(stated.values()) == sorted(forward.values()) == list(range(1, 22))
    for stage in (2, 3):
        block = [f"layer{stage}.0.{part}" for part in ("conv1", "conv2", "downsample.0")]
        first = stated[block[0]]
        assert [stated[name] for name in block] == [first, first + 1, first + 2]
        assert [forward[name] for name in block] == [first + 1, first + 2, first]
    assert {name for name in stated if stated[name] != forward[name]} == {
        f"layer{stage}.0.{part}" for stage in (2, 3) for part in ("conv1", "conv2", "downsample.0")
    }


def test_a_network_without_convolutions_has_equal_weights() -> None:
    model = network("fcnn", {"width": 4}, (4, 4, 1))
    each = gradient(model, torch.rand(1, 1, 4, 4, dtype=torch.float64), torch.tensor([3]))
    observed = {name: value[None] for name, value in each.items()}
    weights = parameter_weights(model, observed, "linear", 50.0, True, "following", "forward")
    assert {float(weight) for weight in weights.values()} == {1.0}


def test_weights_have_the_precision_of_the_gradients() -> None:
    model, observed = resnet()
    single = {name: value.float() for name, value in observed.items()}
    weights = parameter_weights(model, single, "linear", 50.0, True, "following", "parameters")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert {weight.shape for weight in weights.values()} == {(2,)}


def test_the_zeros_may_be_given_for_each_convolution() -> None:
    model, observed = resnet()
    zeros = dict.fromkeys(convolutions(model), 0.0) | {"layer1.0.conv2": 0.75}
    plain = parameter_weights(model, observed, "linear", 50.0, False, "one", "parameters")
    modified = parameter_weights(model, observed, "linear", 50.0, True, "one", "parameters", zeros)
    for name in plain:
        factor = 4 if name == "layer1.0.conv2.weight" else 1
        torch.testing.assert_close(modified[name], plain[name] * factor, rtol=1e-6, atol=0)


def test_what_a_relu_shuts_is_told_for_each_convolution_before_it() -> None:
    """A block's second convolution and its projection go through one ReLU; the last convolution meets
    none."""
    model = nn.Sequential(
        nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.Conv2d(2, 2, 1), nn.ReLU(), nn.Conv2d(2, 1, 1)
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
    model[0].bias.data = torch.tensor([0.0, 0.0, 0.0, -9.0])
    model[3].bias.data = torch.tensor([-99.0, 0.0])
    found = shut_share(model, torch.rand(3, 1, 5, 5) + 0.1)
    assert found == {"0": 0.25, "2": 0.5, "3": 0.5, "5": 0.0}
