"""AGIC's weights of layers: Table I, Eqn 7 and 8, and what the paper leaves open."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trial_networks import network

from leakbench.attacks.matching.objectives.layer_weights import curve, parameter_weights, shut_share
from leakbench.base.tensors import Tensors


def test_the_curves_are_those_of_table_1_and_overflow_nothing() -> None:
    place = torch.arange(1, 6, dtype=torch.float64)
    assert curve("one", 5, 3.0).tolist() == [1] * 5
    for shape, function in (("linear", torch.clone), ("exponential", torch.exp), ("logarithmic", torch.log)):
        rising = (function(place) - function(place[0])) / (function(place[-1]) - function(place[0]))
        torch.testing.assert_close(curve(shape, 5, 3.0), 1 + 2 * rising, rtol=1e-12, atol=1e-12)
        assert curve(shape, 1, 50.0).tolist() == [1]
        assert bool(curve(shape, 2000, 50.0).isfinite().all())


ZEROS = "layer1.0.conv1.weight"


def resnet(**parameters: Any) -> tuple[nn.Module, dict[str, Tensor]]:
    """Return ResNet20-4 and two trials' gradients of ones, one layer of them partly zero."""
    model = network("resnet20_4", {"width": 2} | parameters)
    observed = {name: torch.ones(2, *p.shape, dtype=torch.float64) for name, p in model.named_parameters()}
    if ZEROS in observed:
        observed[ZEROS][1].view(-1)[: observed[ZEROS][1].numel() // 4] = 0
    return model, observed


def convolutions(model: nn.Module) -> list[str]:
    return [name for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d)]


def weighed(model: nn.Module, observed: Tensors, **options: Any) -> Tensors:
    """Return weights that rise from 1 to 21 over the convolutions, or as the options say."""
    given = {"shape": "linear", "beta": 21.0, "relu": False, "norms": "following", "order": "parameters"}
    return parameter_weights(model, observed, **given | options)


def test_the_curve_counts_convolutions_and_a_dense_layer_has_its_mean() -> None:
    model, observed = resnet()
    single = {name: value.float() for name, value in observed.items()}
    weights = weighed(model, single)
    assert weights.keys() == observed.keys()
    # Of the precision of the gradients, for each trial.
    assert {(weight.dtype, weight.shape) for weight in weights.values()} == {(torch.float32, (2,))}
    assert [float(weights[f"{name}.weight"][0]) for name in convolutions(model)] == list(range(1, 22))
    assert weights["dense.weight"].tolist() == weights["dense.bias"].tolist() == [11, 11]


def test_the_relu_modifier_divides_by_the_share_that_is_not_zero() -> None:
    """Equation 8, trial by trial; the zeros may be given for each convolution, and are never all."""
    model, observed = resnet(width=4)
    zeros = dict.fromkeys(convolutions(model), 0.0) | {"layer1.0.conv2": 0.75}
    plain, modified, given = (
        weighed(model, observed, norms="one", **more)
        for more in ({}, {"relu": True}, {"relu": True, "zeros": zeros})
    )
    for name, value in plain.items():
        factor = torch.tensor([1, 4 / 3] if name == ZEROS else [1, 1], dtype=torch.float64)
        torch.testing.assert_close(modified[name], value * factor, rtol=1e-12, atol=0)
        torch.testing.assert_close(given[name], value * (4 if name == "layer1.0.conv2.weight" else 1))
    observed["conv1.weight"].zero_()
    assert all(bool(weight.isfinite().all()) for weight in weighed(model, observed, relu=True).values())


@pytest.mark.parametrize("norms", ["following", "one", "none"])
def test_batch_norm_follows_its_convolution_or_has_one_or_none(norms: str) -> None:
    model, observed = resnet()
    weights = weighed(model, observed, relu=True, norms=norms)
    for norm, conv in (
        ("bn1", "conv1"),
        ("layer1.0.bn1", "layer1.0.conv1"),
        ("layer2.0.downsample.1", "layer2.0.downsample.0"),
        ("layer3.2.bn2", "layer3.2.conv2"),
    ):
        own = weights[f"{conv}.weight"]
        expected = {"following": own, "one": torch.ones_like(own), "none": torch.zeros_like(own)}[norms]
        assert torch.equal(weights[f"{norm}.weight"], expected)
        assert torch.equal(weights[f"{norm}.bias"], expected)


@pytest.mark.parametrize("normalise", ["none", "cifar10"])
def test_order_forward_reads_a_projection_before_its_blocks_convolutions(normalise: str) -> None:
    model, observed = resnet(normalise=normalise)
    # The i-th convolution has weight i.
    stated, forward = (
        {
            name.removeprefix("network."): round(
                float(weighed(model, observed, order=order)[f"{name}.weight"][0])
            )
            for name in convolutions(model)
        }
        for order in ("parameters", "forward")
    )
    assert sorted(forward.values()) == list(range(1, 22))
    moved = {}
    for stage in (2, 3):
        first, *rest = [f"layer{stage}.0.{part}" for part in ("conv1", "conv2", "downsample.0")]
        moved |= {first: stated[first] + 1, rest[0]: stated[first] + 2, rest[1]: stated[first]}
    assert forward == stated | moved


def test_a_network_without_convolutions_has_equal_weights() -> None:
    model = network("fcnn", {"width": 4}, (4, 4, 1))
    observed = {name: value.detach()[None] for name, value in model.named_parameters()}
    weights = weighed(model, observed, relu=True, order="forward")
    assert {float(weight) for weight in weights.values()} == {1.0}


def test_what_a_relu_shuts_is_told_for_each_convolution_before_it() -> None:
    """Two convolutions of a block go through one ReLU; the last convolution meets none."""
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
