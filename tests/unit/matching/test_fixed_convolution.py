"""Convolutions with fixed weights: torch's own, to the second derivative, without the weights' share."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.profiler import ProfilerActivity, profile

from leakbench.attacks.matching.engines.fixed_convolution import NARROW, FixedConv2d, fix_convolutions

CONVOLUTIONS: list[dict[str, Any]] = [
    {"in_channels": 3, "kernel_size": 5, "stride": 2, "padding": 2},
    {"in_channels": NARROW, "kernel_size": 3, "stride": 2, "padding": 1, "dilation": 2},
    {"in_channels": 4, "kernel_size": 3, "padding": 1, "groups": 2},
    {"in_channels": 4, "kernel_size": 3, "padding": "same"},
    {"in_channels": 2, "kernel_size": 3, "padding": 1, "padding_mode": "circular"},
]


def pair(options: dict[str, Any]) -> tuple[nn.Conv2d, nn.Conv2d]:
    """Return torch's convolution and the same, fixed, in float64."""
    torch.manual_seed(0)
    plain = nn.Conv2d(out_channels=4, **options).double().requires_grad_(False)
    return plain, fix_convolutions(deepcopy(plain))  # type: ignore[return-value]


@pytest.mark.parametrize("options", CONVOLUTIONS)
def test_values_and_derivatives_are_torchs(options: dict[str, Any]) -> None:
    plain, fixed = pair(options)
    assert isinstance(fixed, FixedConv2d)
    x = torch.rand(2, options["in_channels"], 9, 8, dtype=torch.float64, requires_grad=True)
    found = []
    for conv in (plain, fixed):
        out = conv(x).sigmoid()
        (slope,) = torch.autograd.grad((out**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((slope**2).sum(), x)
        found.append((out, slope, second))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradgradcheck(fixed, x)


def test_weights_that_ask_have_their_gradient() -> None:
    plain, fixed = pair(CONVOLUTIONS[0])
    x = torch.rand(2, 3, 9, 8, dtype=torch.float64)
    weights = {"weight": plain.weight.clone().requires_grad_(), "bias": plain.bias}
    found = [
        torch.autograd.grad(functional_call(conv, weights, (x,)).square().sum(), weights["weight"])[0]  # type: ignore[arg-type]
        for conv in (plain, fixed)
    ]
    assert torch.equal(*found)


def test_other_weights_are_those_of_the_call() -> None:
    """The derivative is taken after the call, when the module has its own weights again."""
    plain, fixed = pair(CONVOLUTIONS[0])
    x = torch.rand(2, 3, 9, 8, dtype=torch.float64, requires_grad=True)
    other = {"weight": -2 * plain.weight, "bias": plain.bias}
    found = [
        torch.autograd.grad(functional_call(conv, other, (x,)).square().sum(), x)[0]  # type: ignore[arg-type]
        for conv in (plain, fixed)
    ]
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_the_second_derivative_works_out_no_weights() -> None:
    """Three convolutions of one layer: forward, its transpose, and once more forward; the tape's own has a
    fourth."""
    counts = []
    for conv in pair({"in_channels": NARROW, "kernel_size": 3}):
        x = torch.rand(2, NARROW, 9, 8, dtype=torch.float64, requires_grad=True)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            (slope,) = torch.autograd.grad(conv(x).sigmoid().sum(), x, create_graph=True)
            torch.autograd.grad(slope.square().sum(), x)
        counts.append(
            sum(
                e.count
                for e in seen.key_averages()
                if e.key in ("aten::convolution", "aten::convolution_backward")
            )
        )
    assert counts[1] < counts[0]
