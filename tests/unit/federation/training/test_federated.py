"""Local training by the samples, and differentially private training against the literature."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench import defences
from leakbench.base.errors import UserError
from leakbench.defences import Defence
from leakbench.defences.key_lock import lock, secret_names
from leakbench.federation.training.batches import to_size
from leakbench.federation.training.federated import Trainee, averaged, decayed, hold, play_round, received
from leakbench.federation.training.fit import optimiser_of, shared
from leakbench.federation.training.private import epsilon, made_private, steps_of, train_privately
from leakbench.federation.training.server import Fit
from leakbench.networks import victims

TRAINING: dict[str, Any] = {
    "optimiser": "sgd", "lr": 0.05, "options": {"momentum": 0.9, "nesterov": True}, "batch_size": 8,
    "local_epochs": 1, "decay": {"factor": 0.2, "rounds": [2, 3]},
}  # fmt: skip


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 36, 2))


def images(n: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    return torch.randint(256, (n, 8, 8, 1), generator=rng, dtype=torch.uint8), torch.arange(n) % 2


def prepare(x: Tensor, rng: torch.Generator) -> Tensor:
    return to_size(x, None)


def client(model: nn.Module, x: Tensor, y: Tensor) -> Trainee:
    return Trainee(model, optimiser_of(model, TRAINING), secret_names(model), x, y)


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_one_client_is_plain_training() -> None:
    x, y = images(20)
    own = client(network(), x, y)
    server = shared(own.model, own.secret)
    none = defences.build("none", {})
    for turn in range(2):
        server, *_ = play_round(server, [own], none, TRAINING, turn, prepare, [rng(turn)])
    plain = network().train()
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for turn in range(2):
        for batch in torch.randperm(20, generator=rng(turn)).split(8):
            optimiser.zero_grad()
            cross_entropy(plain(to_size(x[batch], None)), y[batch]).backward()
            optimiser.step()
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(server[name], value, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_falls_after_the_named_rounds() -> None:
    assert [round(decayed(TRAINING, turn), 6) for turn in range(5)] == [0.05, 0.05, 0.01, 0.002, 0.002]
    assert decayed(TRAINING | {"decay": None}, 9) == 0.05
    # Means are weighted by images, and counters are the largest.
    uploads = [{"w": torch.tensor([w]), "steps": torch.tensor(n)} for w, n in ((0.0, 3), (4.0, 5))]
    found = averaged(uploads, [1, 3])
    assert (found["w"].item(), found["steps"].item()) == (3.0, 5)


def test_keys_and_lock_layers_stay_with_their_client() -> None:
    x, y = images(24)
    clients = [
        client(lock(network(), rng(7), key_length=16), x[part], y[part])
        for part in (slice(12), slice(12, 24))
    ]
    hold(clients[1].model, {"1.key": torch.zeros(16)})
    server = shared(clients[0].model, clients[0].secret)
    assert not any(part in name for name in server for part in ("key", "scale", "shift"))
    defence = defences.build("key-lock", {"key_length": 16})
    server, losses, _ = play_round(server, clients, defence, TRAINING, 0, prepare, [rng(1), rng(2)])
    assert len(losses) == 2
    first, second = (each.model.state_dict() for each in clients)
    # The same initial locks went different ways, and no mean was taken of them.
    assert not torch.equal(first["1.scale.bias"], second["1.scale.bias"])
    assert not torch.equal(first["1.key"], second["1.key"])
    assert server.keys() == first.keys() - clients[0].secret


def test_what_is_locked_is_refused_in_an_upload_and_where_it_does_not_fit() -> None:
    model = lock(network(), rng(0), key_length=16)
    server = shared(model, secret_names(model))
    lacking = {name: value for name, value in server.items() if name != "0.bias"}
    refused: list[tuple[Callable[[], None], str]] = [
        (lambda: received(model.state_dict(), server, 2), "client 2: the upload holds '1.key', which never"),
        (lambda: received(lacking, server, 0), "client 0: the upload lacks '0.bias'"),
        (lambda: hold(model, {"1.key": torch.zeros(15)}), "'1.key' has 15 values, and the model takes 16"),
        (lambda: hold(network(), {"1.key": torch.zeros(16)}), "the model has no '1.key'"),
    ]
    for call, says in refused:
        with pytest.raises(UserError, match=re.escape(says)):
            call()


def test_a_lock_multiplies_a_step_of_scale_and_shift_by_the_squared_length_of_its_key() -> None:
    """One plain step of the lock layers moves β by |key|² + 1 times what it moves the twin's own."""
    x, y = images(8)
    plain = network()
    locked = lock(plain, rng(3), key_length=64, activation="none")
    scale, shift = locked[1].factors()
    with torch.no_grad():
        plain[1].weight.copy_(scale)
        plain[1].bias.copy_(shift)
    for model in (plain, locked):
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
        cross_entropy(model(to_size(x, None)), y).backward()
        optimiser.step()
    alone, moved = ((after - shift).detach() for after in (plain[1].bias, locked[1].factors()[1]))
    times = float((locked[1].key ** 2).sum()) + 1
    torch.testing.assert_close(moved, times * alone, rtol=1e-2, atol=1e-6)


PRIVACY: dict[str, Any] = {"noise": 1.0, "clip": 0.5, "delta": 1e-5}


def private_client(count: int = 12) -> Trainee:
    torch.manual_seed(0)
    model = victims.build("perceptron", (1, 2, 1), 2, {})
    rng = torch.Generator().manual_seed(3)
    points = torch.randn(count, 1, 2, 1, generator=rng)
    training = {"optimiser": "sgd", "lr": 0.1, "options": {}}
    return Trainee(model, optimiser_of(model, training), frozenset(), points, torch.arange(count) % 2)


def trained(own: Trainee, size: int, lr: float, seed: int) -> Fit:
    """Train a client for an epoch, on its points as they are."""
    training, rng = {"local_epochs": 1, "batch_size": size}, torch.Generator().manual_seed(seed)
    return train_privately(own, training, lr, lambda x, _: x, rng, Defence())


def test_a_step_without_noise_is_the_sum_of_clipped_gradients_by_hand() -> None:
    """With every image in the batch: batch size = count makes the sampling rate 1."""
    own = private_client()
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
        own = private_client()
        before = torch.cat([p.detach().flatten() for p in own.model.parameters()])
        made_private(own, PRIVACY | {"noise": 50.0}, 12)
        trained(own, 12, 1.0, seed)
        moves.append(torch.cat([p.detach().flatten() for p in own.model.parameters()]) - before)
    assert torch.equal(moves[0], moves[1])
    # The noise of 50 · 0.5 over a batch of 12, beside which gradients are nothing.
    assert float(torch.stack(moves[1:]).std()) == pytest.approx(50 * 0.5 / 12, rel=0.05)


def test_an_empty_batch_is_a_step_of_noise() -> None:
    own = private_client(200)
    before = [p.detach().clone() for p in own.model.parameters()]
    made_private(own, PRIVACY, 1)
    trained(own, 1, 0.1, 0)
    assert steps_of(200, 1) == 200
    assert all(torch.isfinite(p).all() for p in own.model.parameters())
    assert not torch.equal(before[0], next(own.model.parameters()).detach())


def test_epsilon_is_that_of_the_moments_accountant() -> None:
    """Abadi et al., section 3.2: rate 0.01, noise 4, 10,000 steps, δ = 1e-5 give ε of about 1.26."""
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
    [(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), r"layer '1' \(BatchNorm2d\)"),
     (Recurrent(), r"layer 'rows' \(LSTM\)")],
)  # fmt: skip
def test_a_network_that_does_not_fit_is_refused_in_one_line(model: nn.Module, says: str) -> None:
    own = private_client()
    own.model = model
    with pytest.raises(UserError, match=says):
        made_private(own, PRIVACY, 4)
