"""A lock as the attacker has it, against autograd of the client's locked network in float64."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from trial_networks import group, terms

from leakbench.attacks.adaptive.key_lock import of_lock, read_key, taken
from leakbench.attacks.matching.engines.gradients import gradients
from leakbench.attacks.matching.objective import Objective
from leakbench.base.errors import Unfit
from leakbench.defences.key_lock import LAYERS, KeyLock, lock
from leakbench.networks import victims
from leakbench.networks.per_trial import hide, lent
from leakbench.observations.adaptation import Nuisance, nothing
from leakbench.observations.observation import Observation

SHAPE, CLASSES, LENGTH, TRIALS, BATCH = (8, 8, 2), 5, 6, 3, 2
Activation = Literal["none", "relu", "sigmoid"]
LAYER = "norm1"
HIDDEN = (f"{LAYER}.weight", f"{LAYER}.bias")


def networks(activation: str, statistics: str, count: int = TRIALS) -> tuple[nn.Module, list[nn.Module]]:
    """Return the server's network, unlocked, and clients' locked ones, each with secrets of its own."""
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
    return hide(plain.double(), [LAYER]).eval(), clients


def of(clients: list[nn.Module]) -> tuple[Tensor, dict[str, Tensor]]:
    locks = [client.get_submodule(LAYER) for client in clients]
    assert all(isinstance(each, KeyLock) for each in locks)
    known = {name: torch.stack([each.state_dict()[name] for each in locks]) for name in ("key", *LAYERS)}
    return known["key"], known


def open_lock(activation: str, clients: list[nn.Module], sought: bool = False) -> Nuisance:
    """Return clients' locks as who knows them has them, but for γ and β if these are `sought`."""
    shut = torch.zeros(len(clients), 12, dtype=torch.bool)
    return of_lock(LAYER, activation, of(clients)[1], LAYERS, shut, sought)


def matched(
    server: nn.Module, own: Nuisance, images: Tensor, labels: Tensor, dummies: dict[str, Tensor]
) -> Any:
    """Return the gradients that are matched, those of the lock layers among them, and the losses."""
    with lent(server, dummies):
        found, losses = gradients(server, images, labels)
    slopes = {name: found.pop(name) for name in HIDDEN}
    return found | own.gradients(torch.arange(len(images)), dummies, slopes), losses


@pytest.mark.parametrize(
    ("activation", "statistics"), [("none", "running"), ("relu", "batch"), ("sigmoid", "running")]
)
def test_gradients_of_a_known_lock_are_those_of_the_client(activation: Activation, statistics: str) -> None:
    server, clients = networks(activation, statistics)
    images = torch.rand(TRIALS, BATCH, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (TRIALS, BATCH))
    own = open_lock(activation, clients)
    dummies = own.dummies({}, torch.arange(TRIALS))
    found, losses = matched(
        server.requires_grad_(False), own, images.clone().requires_grad_(), labels, dummies
    )
    for trial, client in enumerate(clients):
        loss = cross_entropy(client.requires_grad_(True)(images[trial]), labels[trial])
        expected = dict(client.named_parameters())
        slopes = torch.autograd.grad(loss, list(expected.values()))
        assert set(found) == set(expected)
        assert losses[trial].item() == pytest.approx(loss.item(), abs=1e-12)
        for name, value in zip(expected, slopes, strict=True):
            assert (found[name][trial].detach() - value).norm() <= 1e-6 * max(float(value.norm()), 1e-9), name


@pytest.mark.parametrize(
    ("activation", "statistics"), [("none", "batch"), ("relu", "running"), ("sigmoid", "batch")]
)
def test_derivatives_are_those_of_the_matched_gradients(activation: Activation, statistics: str) -> None:
    """Of images, labels and what is sought, through all gradients, the lock layers' too."""
    server, clients = networks(activation, statistics, 1)
    server.requires_grad_(False)
    own = open_lock(activation, clients, sought=True)
    leaves = [(value.abs() + 0.1).requires_grad_() for value in own.start.values()]
    leaves += [
        torch.rand(1, 1, *shape, dtype=torch.float64, requires_grad=True)
        for shape in ((SHAPE[2], *SHAPE[:2]), (CLASSES,))
    ]

    def total(scale: Tensor, shift: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        dummies = own.dummies(dict(zip(own.start, (scale, shift), strict=True)), torch.arange(1))
        found, _ = matched(server, own, images, labels.softmax(2), dummies)
        return torch.stack([value.square().sum() for value in found.values()]).sum()

    assert torch.autograd.gradcheck(total, leaves, eps=1e-6, atol=1e-6, rtol=1e-4)


def test_losses_of_members_count_the_shared_gradients_of_the_lock() -> None:
    """CMA-ES makes no gradient, and yet compares those of the lock layers."""
    server, clients = networks("sigmoid", "running")
    images = torch.rand(TRIALS, 1, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    labels, rows = torch.randint(0, CLASSES, (TRIALS, 1)), torch.arange(TRIALS)
    own, known = open_lock("sigmoid", clients), of(clients)[1]
    alike = {name: torch.randn(TRIALS, *p.shape).double() for name, p in server.named_parameters()}
    alike |= {f"{LAYER}.{name}": torch.randn(known[name].shape).double() for name in LAYERS}
    trials = replace(group(server, images, labels, observed=alike), nuisance=own)
    objective = Objective(trials, terms("squares", None, 0.0))
    dummies = {"images": images} | own.dummies({}, rows)
    losses = objective.losses(rows)(dummies, rows)
    torch.testing.assert_close(losses, objective.evaluate(rows)(dummies)[0])


def test_the_key_is_the_ratio_of_a_lock_layers_gradients() -> None:
    key = torch.rand(2, LENGTH)
    bias = torch.randn(2, 12)
    assert torch.allclose(read_key(bias[:, :, None] * key[:, None], bias), key, atol=1e-6)
    # Where every channel is shut nothing is known.
    assert torch.equal(read_key(torch.zeros(1, 12, LENGTH), torch.zeros(1, 12)), torch.full((1, LENGTH), 0.5))


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
        for name in ("scale", "shift"):
            updates |= {f"{LAYER}.{name}.bias": np.ones((2, 1, 12), np.float32)}
            updates |= {f"{LAYER}.{name}.weight": np.repeat(key, 12, 2)}
    return Observation(
        {
            "module": "lenet-dlg", "parameters": {"norm": "batch", "statistics": "batch"},
            "shape": list(SHAPE), "classes": CLASSES,
        },
        {name: value.float().numpy()[None] for name, value in server.state_dict().items()},
        updates,
        origin=np.zeros(2, np.int64),
        clients=[1],
        kind="gradient",
        hidden={"layers": [LAYER], "about": {"key_length": LENGTH, "activation": activation}},
        shown={f"{LAYER}.{name}": rng.random((2, 1, *shapes[name]), np.float32) for name in shown},
    )  # fmt: skip


def lock_of(shares: list[str], seek: bool, rounds: tuple[int, ...] = (0, 1)) -> Nuisance:
    return taken(seen(shares), 0, torch.tensor(rounds), torch.Generator().manual_seed(0), seek=seek)


@pytest.mark.parametrize(
    ("shares", "sought", "told"),
    [
        ([], True, 0), (["key"], True, 0), (["lock-weights"], True, 0), (["key", "lock-weights"], False, 0),
        (["lock-gradients"], True, 2), (["lock-weights", "lock-gradients"], False, 2),
    ],
)  # fmt: skip
def test_what_is_shared_decides_what_is_sought(shares: list[str], sought: bool, told: int) -> None:
    assert lock_of(shares, False).start == {}
    found = lock_of(shares, True)
    # The weights' gradients are the biases' times the key, and tell no more than these.
    assert (len(found.beside), len(lock_of(shares, False).beside)) == (told, 2 * told)
    assert all(name.endswith("bias") for name in found.beside)
    assert bool(found.start) == sought
    dummies = found.dummies(found.start, torch.arange(2))
    assert set(dummies) == set(HIDDEN)
    assert all((value >= 0).all() and value.shape == (2, 12) for value in dummies.values())
    # No gradient came through the fourth channel.
    assert (dummies[f"{LAYER}.weight"][:, 4] == 0).all()


def test_a_guess_uses_what_is_shared_and_draws_the_rest_anew_for_each_trial() -> None:
    """The key is the ratio of the lock layers' gradients; the layers differ from trial to trial."""
    shown = seen(["key", "lock-gradients"]).shown[f"{LAYER}.key"]
    found = lock_of(["key", "lock-gradients"], False, (0, 0, 1, 1))
    rows = torch.arange(4)
    dummies = found.dummies({}, rows)
    made = found.gradients(rows, dummies, {name: torch.ones(4, 12) for name in HIDDEN})
    key = read_key(made[f"{LAYER}.shift.weight"], made[f"{LAYER}.shift.bias"])
    assert np.allclose(key.numpy(), shown[[0, 0, 1, 1], 0], atol=1e-6)
    assert len(torch.unique(dummies[f"{LAYER}.bias"], dim=0)) == 4
    # Each layer's weights and bias are within one over the root of the key's length, and the key within 1.
    assert dummies[f"{LAYER}.bias"].max() <= (LENGTH + 1) * LENGTH**-0.5


def told(layers: tuple[str, ...] = (LAYER,), **about: Any) -> object:
    """Take a lock of whose layers an observation says this."""
    seen_ = replace(seen(["key"]), hidden={"layers": list(layers), "about": about})
    return taken(seen_, 0, torch.arange(2), torch.Generator(), seek=False)


def stepping() -> object:
    model = victims.build("lenet-dlg", (32, 32, 3), 10, {"norm": "batch"})
    plain = group(model, torch.rand(2, 1, 3, 32, 32), torch.zeros(2, 1, dtype=torch.int64), steps=[slice(1)])
    return replace(plain, model=hide(model, [LAYER]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: told(key_length=LENGTH + 1, activation="relu"),
         rf"shown/{LAYER}.key is .* a key of length {LENGTH + 1}"),
        (lambda: told(key_length="long", activation="relu"), "a whole number"),
        (lambda: told(key_length=LENGTH, activation="tanh"), "one of none, relu, sigmoid"),
        (told, "a whole number"),
        (lambda: told((LAYER, "conv2"), key_length=LENGTH, activation="relu"), "2 locks in a chain"),
        (lambda: nothing(seen([]), 0, torch.arange(2), torch.Generator()), "clients hide parameters"),
        # Local steps are not simulated behind a lock.
        (stepping, "hidden parameters"),
    ],
)  # fmt: skip
def test_a_lock_that_cannot_be_taken_fits_no_attack(call: Any, message: str) -> None:
    with pytest.raises(Unfit, match=message):
        call()
