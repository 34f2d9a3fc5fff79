"""Differentially private training: clipping and noise by hand, ε against the literature, and networks that do
not fit."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench.base.errors import UserError
from leakbench.defences import Defence
from leakbench.federation.training.federated import Client
from leakbench.federation.training.fit import optimiser_of
from leakbench.federation.training.private import epsilon, made_private, steps_of, train_privately
from leakbench.federation.training.server import Fit
from leakbench.networks import victims

PRIVACY: dict[str, Any] = {"noise": 1.0, "clip": 0.5, "delta": 1e-5}


def client(count: int = 12) -> Client:
    torch.manual_seed(0)
    model = victims.build("perceptron", (1, 2, 1), 2, {})
    rng = torch.Generator().manual_seed(3)
    points = torch.randn(count, 1, 2, 1, generator=rng)
    training = {"optimiser": "sgd", "lr": 0.1, "options": {}}
    return Client(model, optimiser_of(model, training), frozenset(), points, torch.arange(count) % 2)


def trained(own: Client, size: int, lr: float, seed: int) -> Fit:
    """Train a client for an epoch, on its points as they are."""
    training, rng = {"local_epochs": 1, "batch_size": size}, torch.Generator().manual_seed(seed)
    return train_privately(own, training, lr, lambda x, _: x, rng, Defence())


def test_a_step_without_noise_is_the_sum_of_clipped_gradients_by_hand() -> None:
    """With every image in the batch: batch size = count makes the sampling rate 1."""
    own = client()
    plain = copy.deepcopy(own.model)
    made_private(own, PRIVACY | {"noise": 0.0}, 12)
    fit = trained(own, 12, 0.1, 0)
    total = [torch.zeros_like(p) for p in plain.parameters()]
    losses = []
    for x, y in zip(own.images, own.labels, strict=True):
        loss = cross_entropy(plain(x[None]), y[None])
        gradient = torch.autograd.grad(loss, list(plain.parameters()))
        norm = torch.sqrt(sum((g**2).sum() for g in gradient))
        for into, g in zip(total, gradient, strict=True):
            into += g * min(1.0, 0.5 / (float(norm) + 1e-6))
        losses.append(float(loss.detach()))
    for found, before, step in zip(own.model.parameters(), plain.parameters(), total, strict=True):
        torch.testing.assert_close(found.detach(), before.detach() - 0.1 * step / 12, rtol=1e-4, atol=1e-6)
    assert fit.loss == pytest.approx(sum(losses) / 12, rel=1e-5)


def test_noise_comes_from_the_generator_alone_and_has_the_stated_size() -> None:
    moves = []
    for seed in (1, 1, *range(2, 80)):
        own = client()
        before = torch.cat([p.detach().flatten() for p in own.model.parameters()])
        made_private(own, PRIVACY | {"noise": 50.0}, 12)
        trained(own, 12, 1.0, seed)
        moves.append(torch.cat([p.detach().flatten() for p in own.model.parameters()]) - before)
    assert torch.equal(moves[0], moves[1])
    # The noise of 50 · 0.5 over a batch of 12, beside which gradients are nothing.
    assert float(torch.stack(moves[1:]).std()) == pytest.approx(50 * 0.5 / 12, rel=0.05)


def test_an_empty_batch_is_a_step_of_noise() -> None:
    own = client(200)
    before = [p.detach().clone() for p in own.model.parameters()]
    made_private(own, PRIVACY, 1)
    trained(own, 1, 0.1, 0)
    assert steps_of(200, 1) == 200
    assert all(torch.isfinite(p).all() for p in own.model.parameters())
    assert not torch.equal(before[0], next(own.model.parameters()).detach())


def test_epsilon_is_that_of_the_moments_accountant() -> None:
    """Abadi et al., section 3.2: rate 0.01, noise 4, 10,000 steps, δ = 1e-5 give ε of about 1.26; Rényi
    divergences a little less."""
    given = ((4.0, 100), (2.0, 100), (4.0, 200))
    found, *more = (epsilon(PRIVACY | {"noise": noise}, 10_000, 100, epochs) for noise, epochs in given)
    assert 0.9 < found <= 1.27
    assert min(more) > found


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.LSTM(4, 4)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), r"layer '1' \(BatchNorm2d\)"),
        (Recurrent(), r"layer 'rows' \(LSTM\)"),
    ],
)
def test_a_network_that_does_not_fit_is_refused_in_one_line(model: nn.Module, says: str) -> None:
    own = client()
    own.model = model
    with pytest.raises(UserError, match=says) as told:
        made_private(own, PRIVACY, 4)
    assert "\n" not in str(told.value)
