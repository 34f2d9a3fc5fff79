"""Batched gradients, their products and their gap against autograd's, one trial at a time, in float64."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from test_any_module import holds
from torch import Tensor, nn
from torch.func import functional_call
from torch.profiler import ProfilerActivity, profile
from trial_networks import CLASSES, SHAPE, everything, gradient, group, met, network

from leakbench.attacks.matching.engines.fixed_convolution import NARROW, FixedConv2d, fix_convolutions
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit, gradients
from leakbench.attacks.matching.gap import gradient_gap
from leakbench.base.errors import Unfit

EXACT = 1e-6


def apart(found: Tensor, expected: Tensor) -> float:
    """Return the distance relative to what is expected; the plain one where that is zero but for rounding."""
    size = float(expected.detach().norm())
    return float((found - expected).detach().norm()) / (size if size > 1e-12 else 1.0)


def drawn(trials: int, batch: int, seed: int = 2) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    return torch.rand(trials, batch, 3, 32, 32, dtype=torch.float64), torch.randint(
        0, CLASSES, (trials, batch)
    )


@pytest.mark.parametrize("conv", [nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(3, 2, (3, 2), (1, 2), (2, 0), (2, 1))])
def test_strides_paddings_and_dilations_are_heeded(conv: nn.Conv2d) -> None:
    model = nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.LazyLinear(CLASSES))
    images, labels = drawn(3, 2)
    model.double()(images[0])
    holds(model.requires_grad_(False), images, labels)


def test_soft_labels_and_their_derivative_are_autograds() -> None:
    model = network("lenet_dlg", {})
    images, _ = drawn(3, 2)
    logits = torch.randn(3, 2, CLASSES, dtype=torch.float64)
    wanted = logits.clone().requires_grad_()
    model.requires_grad_(False)
    found, _ = gradients(model, images.clone().requires_grad_(), wanted.softmax(2))
    along = torch.randn_like(found["conv1.weight"][0])
    (derivative,) = torch.autograd.grad((found["conv1.weight"] * along).sum(), wanted)
    for trial in range(3):
        one = logits[trial].clone().requires_grad_()
        expected = gradient(model, images[trial], one.softmax(1), create_graph=True)
        assert apart(found["conv1.weight"][trial], expected["conv1.weight"]) < EXACT
        (slope,) = torch.autograd.grad((expected["conv1.weight"] * along).sum(), one)
        assert apart(derivative[trial], slope) < EXACT


def test_weights_may_be_others_than_the_models_own() -> None:
    model, other = network("resnet20_4", {"width": 2}), network("resnet20_4", {"width": 2}, seed=9)
    images, labels = drawn(2, 2)
    # Buffers stay the model's.
    other.load_state_dict(dict(other.named_parameters()) | dict(model.named_buffers()))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.requires_grad_(False)
    found, _ = gradients(
        model, images.clone().requires_grad_(), labels, weights=dict(other.named_parameters())
    )
    for trial in range(2):
        for name, value in gradient(other, images[trial], labels[trial]).items():
            assert apart(found[name][trial], value) < EXACT
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_no_hook_stays_behind() -> None:
    model = network("lenet_dlg", {}).requires_grad_(False)
    images, labels = drawn(1, 1)
    gradients(model, images.requires_grad_(), labels)
    with pytest.raises(RuntimeError):
        gradients(model, torch.rand(1, 1, 5, 32, 32, dtype=torch.float64, requires_grad=True), labels)
    assert not any(layer._forward_hooks for layer in model.modules())


class Own(nn.Linear):
    """A layer that may do anything."""


def test_a_layer_without_a_rule_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Flatten(), Own(3072, CLASSES)).double()
    images, labels = drawn(2, 1)
    for _ in range(2):
        holds(model.requires_grad_(False), images, labels)
    (line,) = capsys.readouterr().err.splitlines()
    assert "1 (Own): no rule" in line


def test_a_network_that_autograd_cannot_differentiate_is_refused() -> None:
    class Broken(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x).tanh()
            return y.mul_(2)

    model = Broken(nn.Flatten(), nn.Linear(3072, CLASSES)).double()
    with pytest.raises(Unfit, match="autograd has no gradients of the victim"):
        gradients(model, *drawn(1, 1))


@torch.no_grad()
def test_a_network_is_met_where_nothing_else_is_differentiated() -> None:
    model = network("lenet_dlg", {}).requires_grad_(False)
    assert engines_fit(model, torch.Size([1, 3, 32, 32]))


class Twice(nn.Module):
    """A network whose forward pass uses the weights of a layer outside the layer too."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(3, 3, 3, padding=1), nn.Linear(3072, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.convolution(x))
        x = torch.tanh(nn.functional.conv2d(x, self.convolution.weight, padding=1))
        return self.head(x.flatten(1))


def test_a_last_layer_of_zeros_does_not_hide_that_an_engine_is_wrong() -> None:
    """All other gradients are zero then, until a step of the client has moved the last layer."""
    torch.manual_seed(0)
    model = Twice().double()
    nn.init.zeros_(model.head.weight)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert not engines_fit(model, SHAPE)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_last_layer_of_zeros_does_no_harm() -> None:
    model = network("lenet_dlg", {})
    nn.init.zeros_(list(model.parameters())[-2])
    assert engines_fit(model, SHAPE)


@pytest.mark.parametrize(("module", "parameters"), [("lenet_dlg", {}), ("resnet20_4", {"width": 4})])
@pytest.mark.parametrize("batch", [1, 2])
def test_products_are_of_each_trials_own_observation_by_its_weights(
    module: str, parameters: dict[str, object], batch: int
) -> None:
    model = met(module, parameters).requires_grad_(False)
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(3, batch, 3, 32, 32, generator=rng, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (3, batch), generator=rng)
    owner = torch.tensor([1, 0, 0])
    made = {n: g.detach() for n, g in gradients(model, images.clone().requires_grad_(), labels)[0].items()}
    seen = {n: g[1:] + 0.5 * g[:1] for n, g in made.items()}
    observed = {n: rows_of(g) for n, g in seen.items()}
    weights = {n: torch.rand(3, generator=rng, dtype=torch.float64) for n in made}
    for each in (None, weights):
        found = gradient_products(model, images.clone(), labels, observed, owner, each)
        for kind, other in (("mine", made), ("dot", {n: o[owner] for n, o in seen.items()})):
            expected = sum(
                (made[n] * other[n]).flatten(1).sum(1) * (1 if each is None else each[n]) for n in made
            )
            torch.testing.assert_close(found[kind], expected, rtol=1e-9, atol=1e-12)


def test_no_gradient_of_a_wide_layer_is_made() -> None:
    """A dense layer of 40 million weights: eight gradients of it would be 1.2 GB."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(300, 130_000), torch.nn.ReLU())
    model = torch.nn.Sequential(model, torch.nn.Linear(130_000, 10, bias=False)).requires_grad_(False)
    observed = {name: rows_of(torch.ones(1, *value.shape)) for name, value in model.named_parameters()}
    engines_fit(model, torch.Size([1, 3, 10, 10]))
    with torch.profiler.profile(profile_memory=True) as profile:
        gradient_products(
            model, torch.rand(8, 1, 3, 10, 10), torch.zeros(8, 1, dtype=torch.long), observed,
            torch.zeros(8, dtype=torch.long),
        )  # fmt: skip
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 40 * 130_000 * 8


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_it_is_the_mean_square_over_all_parameters(chunk: int) -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, CLASSES, (3, 2))
    of = group(model, images, labels)
    dummies = torch.randn(3, 2, 3, 16, 16).double()
    found = gradient_gap(of, {"images": dummies}, chunk)
    for trial in range(3):
        mine = gradient(model, dummies[trial] * of.deviation + of.mean, labels[trial])
        theirs = {name: value[trial] for name, value in everything(of).items()}
        apart = torch.cat([(mine[name] - theirs[name]).flatten() for name in theirs])
        assert float(found[trial]) == pytest.approx(float(apart.square().mean()), rel=1e-9)


def test_the_private_images_leave_no_gap_and_labels_may_be_unknown() -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(2, 1, 3, 16, 16).double(), torch.randint(0, CLASSES, (2, 1))
    of = group(model, images, labels, known=False)
    own = {"images": (images - of.mean) / of.deviation}
    right = torch.nn.functional.one_hot(labels, CLASSES).double() * 100
    assert gradient_gap(of, own | {"labels": right}, 2).max() < 1e-20
    assert gradient_gap(of, own | {"labels": -right}, 2).min() > 1e-6


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
