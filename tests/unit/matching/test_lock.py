"""A lock as the attacker has it, against autograd of the client's locked network in float64."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.functional import cross_entropy
from trial_networks import group, terms

from leakbench import victims
from leakbench.attacks.observation import Observation
from leakbench.defences.key_lock import LAYERS, KeyLock, lock
from leakbench.errors import Unfit
from leakbench.matching import gradients as of_gradients
from leakbench.matching.gradients import gradients
from leakbench.matching.lock import Lock, guess, read_key
from leakbench.matching.objective import Objective
from leakbench.matching.unlocked import FACTORS, opened, unlock

SHAPE, CLASSES, LENGTH, TRIALS, BATCH = (8, 8, 2), 5, 6, 3, 2
Activation = Literal["none", "relu", "sigmoid"]
LAYER = "norm1"


def networks(activation: str, statistics: str, count: int = TRIALS) -> tuple[nn.Module, list[nn.Module]]:
    """Return the server's network, unlocked, and the clients' locked ones, each with a key and layers of its
    own."""
    torch.manual_seed(0)
    plain = victims.build("lenet-dlg", SHAPE, CLASSES, {"norm": "batch", "statistics": statistics})
    norm = plain.get_submodule(LAYER)
    if norm.running_mean is not None:
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    rng = torch.Generator().manual_seed(1)
    clients = [
        lock(plain, rng, key_length=LENGTH, activation=activation).double().eval() for _ in range(count)
    ]
    return unlock(plain.double(), [LAYER]).eval(), clients


def of(clients: list[nn.Module]) -> tuple[Tensor, dict[str, Tensor]]:
    locks = [client.get_submodule(LAYER) for client in clients]
    assert all(isinstance(each, KeyLock) for each in locks)
    known = {name: torch.stack([each.state_dict()[name] for each in locks]) for name in ("key", *LAYERS)}
    return known["key"], known


@pytest.mark.parametrize("activation", ["none", "relu", "sigmoid"])
@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_the_gradients_of_a_known_lock_are_those_of_the_client(
    activation: Activation, statistics: str
) -> None:
    server, clients = networks(activation, statistics)
    _, known = of(clients)
    images = torch.rand(TRIALS, BATCH, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (TRIALS, BATCH))
    own = Lock(LAYER, activation, known, False, LAYERS, torch.zeros(TRIALS, 12, dtype=torch.bool))
    rows = torch.arange(TRIALS)
    factors = own.factors(rows, {})
    server.requires_grad_(False)
    found, losses = gradients(server, images.requires_grad_(), labels, factors=factors)
    slopes = {name: found.pop(f"{LAYER}.{name}") for name in FACTORS}
    found |= own.gradients(rows, factors, slopes)
    for trial, client in enumerate(clients):
        weights = {name: value.detach() for name, value in client.named_parameters()}

        def loss(weights: Any, client: nn.Module = client, trial: int = trial) -> Tensor:
            return cross_entropy(functional_call(client, weights, (images[trial].detach(),)), labels[trial])

        expected = grad(loss)(weights)
        assert set(found) == set(expected)
        assert losses[trial].item() == pytest.approx(loss(weights).item(), abs=1e-12)
        for name, value in expected.items():
            assert (found[name][trial].detach() - value).norm() <= 1e-6 * max(float(value.norm()), 1e-9), name


@pytest.mark.parametrize("activation", ["none", "relu", "sigmoid"])
def test_a_factors_derivative_is_that_of_the_matched_gradients(activation: Activation) -> None:
    """What is sought has the slope that differences show, through all gradients, the lock layers' among
    them."""
    server, clients = networks(activation, "batch", 1)
    server.requires_grad_(False)
    own = Lock(LAYER, activation, of(clients)[1], True, LAYERS, torch.zeros(1, 12, dtype=torch.bool))
    images = torch.rand(1, 1, SHAPE[2], *SHAPE[:2], dtype=torch.float64, requires_grad=True)
    labels, rows = torch.tensor([[1]]), torch.arange(1)
    start = {name: value.abs() + 0.1 for name, value in own.start().items()}

    def matched(scale: Tensor, shift: Tensor) -> Tensor:
        unknowns = {"lock.scale": scale, "lock.shift": shift}
        factors = own.factors(rows, unknowns)
        found = gradients(server, images, labels, factors=factors)[0]
        slopes = {name: found.pop(f"{LAYER}.{name}") for name in FACTORS}
        found |= own.gradients(rows, factors, slopes)
        return torch.stack([value.square().sum() for value in found.values()]).sum()

    leaves = [start[f"lock.{name}"].requires_grad_() for name in FACTORS]
    assert torch.autograd.gradcheck(matched, leaves, eps=1e-6, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("statistics", ["running", "batch"])
def test_rates_behind_a_lock_are_those_of_the_tape(statistics: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all gradients, at images, labels, scale and shift."""
    server, _ = networks("relu", statistics)
    server.requires_grad_(False)
    rng = torch.Generator().manual_seed(3)

    def leaf(*shape: int) -> Tensor:
        return torch.rand(shape, generator=rng, dtype=torch.float64).requires_grad_()

    images, labels = leaf(TRIALS, BATCH, SHAPE[2], *SHAPE[:2]), leaf(TRIALS, BATCH, CLASSES)
    factors = {name: leaf(TRIALS, 12) for name in FACTORS}
    found = gradients(server, images, labels.softmax(2), factors=factors)
    monkeypatch.setattr(of_gradients, "chain", lambda model: None)
    expected = gradients(server, images, labels.softmax(2), factors=factors)
    assert set(found[0]) == set(expected[0])
    torch.testing.assert_close(found, expected)
    along = {name: torch.randn(value.shape, generator=rng).double() for name, value in found[0].items()}
    leaves = [images, labels, *factors.values()]
    slopes = [
        torch.autograd.grad(sum((made[name] * v).sum() for name, v in along.items()), leaves)
        for made, _ in (found, expected)
    ]
    torch.testing.assert_close(slopes[0], slopes[1])


def test_losses_of_members_count_the_shared_gradients_of_the_lock() -> None:
    """CMA-ES makes no gradient, and yet compares those of the lock layers."""
    server, clients = networks("sigmoid", "running")
    images = torch.rand(TRIALS, 1, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (TRIALS, 1))
    own = Lock(LAYER, "sigmoid", of(clients)[1], False, LAYERS, torch.zeros(TRIALS, 12, dtype=torch.bool))
    alike = {name: torch.randn(TRIALS, *p.shape).double() for name, p in server.named_parameters()}
    alike |= {f"{LAYER}.{name}": torch.randn(TRIALS, *own.known[name].shape[1:]).double() for name in LAYERS}
    objective = Objective(
        replace(group(server, images, labels, observed=alike), lock=own), terms("squares", None, 0.0)
    )
    rows = torch.arange(TRIALS)
    losses = objective.losses(rows)({"images": images}, rows)
    torch.testing.assert_close(losses, objective.evaluate(rows)({"images": images})[0])


def test_the_key_is_the_ratio_of_a_lock_layers_gradients() -> None:
    key = torch.rand(2, LENGTH)
    bias = torch.randn(2, 12)
    assert torch.allclose(read_key(bias[:, :, None] * key[:, None], bias), key, atol=1e-6)
    # Where every channel is shut nothing is known.
    assert torch.equal(read_key(torch.zeros(1, 12, LENGTH), torch.zeros(1, 12)), torch.full((1, LENGTH), 0.5))


def test_factors_hold_only_while_they_are_lent() -> None:
    server, _ = networks("relu", "batch")
    images = torch.rand(2, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    before = server(images)
    lent = {"scale": torch.full((2, 12), 3.0).double(), "shift": torch.zeros(2, 12).double()}
    with opened(server, lent):
        assert not torch.allclose(server(images), before)
    assert torch.equal(server(images), before)


def seen(shares: list[str], activation: str = "relu") -> Observation:
    """Return one client's observation of two rounds whose shared secrets are told apart."""
    server, _ = networks(activation, "batch")
    rng = np.random.default_rng(0)
    shapes = {"key": (LENGTH,)} | {
        name: (12, LENGTH) if name.endswith("weight") else (12,) for name in LAYERS
    }
    shown = [*(["key"] if "key" in shares else []), *(LAYERS if "lock-weights" in shares else [])]
    updates = {name: np.ones((2, 1, *p.shape), np.float32) for name, p in server.named_parameters()}
    updates["conv1.weight"][:, :, 4] = 0
    if "lock-gradients" in shares:
        key = rng.random((2, 1, 1, LENGTH), np.float32)
        updates |= {f"{LAYER}.shift.bias": np.ones((2, 1, 12), np.float32)}
        updates |= {f"{LAYER}.shift.weight": np.repeat(key, 12, 2)}
    return Observation(
        network={
            "module": "lenet-dlg",
            "parameters": {"norm": "batch", "statistics": "batch"},
            "shape": list(SHAPE),
            "classes": CLASSES,
        },
        weights={name: value.float().numpy()[None] for name, value in server.state_dict().items()},
        updates=updates,
        origin=np.zeros(2, np.int64),
        clients=[1],
        kind="gradient",
        lock={"layers": [LAYER], "key_length": LENGTH, "activation": activation, "shares": shares},
        shown={f"{LAYER}.{name}": rng.random((2, 1, *shapes[name]), np.float32) for name in shown},
    )


def taken(shares: list[str], how: Literal["guessed", "sought"], restarts: int = 1) -> Lock:
    found = guess(seen(shares), 0, torch.arange(2), restarts, how, torch.Generator().manual_seed(0))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("shares", "sought", "told"),
    [
        ([], True, 0), (["key"], True, 0), (["lock-weights"], True, 0), (["key", "lock-weights"], False, 0),
        (["lock-gradients"], True, 2), (["lock-weights", "lock-gradients"], False, 2),
    ],
)  # fmt: skip
def test_what_is_shared_decides_what_is_sought(shares: list[str], sought: bool, told: int) -> None:
    assert not taken(shares, "guessed").sought
    assert taken(shares, "guessed").start() == {}
    found = taken(shares, "sought")
    # The weights' gradients are the biases' times the key, and tell no more than these.
    assert (len(found.told), len(taken(shares, "guessed").told)) == (told, 2 * told)
    assert all(name.endswith("bias") for name in found.told)
    assert found.sought == sought
    rows = torch.arange(2)
    factors = found.factors(rows, found.start())
    assert all((value >= 0).all() and value.shape == (2, 12) for value in factors.values())
    # No gradient came through the fourth channel.
    assert (factors["scale"][:, 4] == 0).all()


def test_a_guess_uses_what_is_shared_and_draws_the_rest_anew_for_each_trial() -> None:
    shown = seen(["key"]).shown[f"{LAYER}.key"]
    found = taken(["key"], "guessed", restarts=2)
    assert np.array_equal(found.known["key"].numpy(), shown[[0, 0, 1, 1], 0])
    weights = found.known["scale.weight"]
    assert len(torch.unique(weights.flatten(1), dim=0)) == 4
    assert weights.abs().max() <= LENGTH**-0.5


def test_a_chained_lock_fits_no_attack() -> None:
    seen_ = seen([])
    seen_.lock["layers"] = [LAYER, "conv2"]
    with pytest.raises(Unfit, match="2 locks in a chain"):
        guess(seen_, 0, torch.arange(2), 1, "guessed", torch.Generator())


def test_local_steps_are_not_simulated_behind_a_lock() -> None:
    model = victims.build("lenet-dlg", (32, 32, 3), 10, {"norm": "batch"})
    plain = group(model, torch.rand(2, 1, 3, 32, 32), torch.zeros(2, 1, dtype=torch.int64), steps=[slice(1)])
    with pytest.raises(Unfit, match="behind a lock"):
        replace(plain, lock=taken([], "guessed"))
