"""Simulated local steps against plain SGD and autograd, one client at a time, in float64."""

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy
from trial_networks import CLASSES, gradient, network

from leakbench.attacks.matching.simulation import simulated_update
from leakbench.federation import local_update

STEPS = [slice(0, 2), slice(2, 4), slice(4, 5)]


def drawn() -> tuple[nn.Module, Tensor, Tensor]:
    model = network("resnet20_4", {"width": 2})
    torch.manual_seed(5)
    return model, torch.rand(2, 5, 3, 16, 16, dtype=torch.float64), torch.randint(0, CLASSES, (2, 5))


def test_the_update_is_that_of_plain_sgd() -> None:
    model, images, labels = drawn()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    found = simulated_update(
        model.requires_grad_(False), images.clone().requires_grad_(), labels, STEPS * 2, 0.05
    )
    for trial in range(2):
        model.load_state_dict(start)
        model.requires_grad_(True)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(2):
            for part in STEPS:
                optimiser.zero_grad()
                cross_entropy(model(images[trial, part]), labels[trial, part]).backward()
                optimiser.step()
        for name, parameter in model.named_parameters():
            expected = parameter.detach() - start[name]
            assert expected.abs().max() > 1e-6
            torch.testing.assert_close(found[name][trial], expected, rtol=1e-6, atol=1e-10)


def test_the_update_is_the_clients_own() -> None:
    """What the federation's client sends: the attacker simulates the very thing."""
    model, images, labels = drawn()
    weights = {name: p.detach() for name, p in model.named_parameters()}
    sent = local_update(model, weights, images, labels, {}, 0.05, 2, 2, "model", dict(model.named_buffers()))
    found = simulated_update(
        model.requires_grad_(False), images.clone().requires_grad_(), labels, STEPS * 2, 0.05
    )
    for name, value in sent.items():
        torch.testing.assert_close(found[name].detach(), value, rtol=1e-6, atol=1e-10)


def by_autograd(model: nn.Module, images: Tensor, labels: Tensor, lr: float) -> dict[str, Tensor]:
    """Return the update of one client with its graph."""
    buffers = dict(model.named_buffers())
    start = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    weights = dict(start)
    for part in STEPS:
        loss = cross_entropy(functional_call(model, {**buffers, **weights}, (images[part],)), labels[part])
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        weights = {name: w - lr * g for (name, w), g in zip(weights.items(), slopes, strict=True)}
    return {name: weights[name] - start[name] for name in start}


def test_the_derivative_is_autograds() -> None:
    model, images, labels = drawn()
    along = {name: torch.randn_like(p) for name, p in model.named_parameters()}
    wanted = images.clone().requires_grad_()
    found = simulated_update(model.requires_grad_(False), wanted, labels, STEPS, 0.05)
    total = torch.stack([(value * along[name]).sum() for name, value in found.items()]).sum()
    (derivative,) = torch.autograd.grad(total, wanted)
    for trial in range(2):
        one = images[trial].clone().requires_grad_()
        expected = by_autograd(model, one, labels[trial], 0.05)
        total = torch.stack([(value * along[name]).sum() for name, value in expected.items()]).sum()
        (slope,) = torch.autograd.grad(total, one)
        assert float(slope.norm()) > 0
        assert float((derivative[trial] - slope).norm() / slope.norm()) < 1e-6


def test_one_step_is_one_batch() -> None:
    model, images, labels = drawn()
    found = simulated_update(
        model.requires_grad_(False), images.clone().requires_grad_(), labels, [slice(0, 5)], 0.05
    )
    for trial in range(2):
        for name, value in gradient(model, images[trial], labels[trial]).items():
            torch.testing.assert_close(found[name][trial].detach(), -0.05 * value, rtol=1e-6, atol=1e-12)


def test_the_model_is_not_moved() -> None:
    model, images, labels = drawn()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    simulated_update(model.requires_grad_(False), images.requires_grad_(), labels, STEPS, 0.05)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
