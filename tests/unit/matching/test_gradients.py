"""Batched gradients against autograd's, one trial at a time, in float64."""

import pytest
import torch
from test_any_module import holds
from torch import Tensor, nn
from trial_networks import CLASSES, SHAPE, gradient, network

from leakbench.attacks.matching.engines.gradients import engines_fit, gradients
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
