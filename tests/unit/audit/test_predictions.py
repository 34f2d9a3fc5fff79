"""What closed forms predict is what the attacks find, and nothing is predicted where they do not hold."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from clients import Own, client_of, faces, frozen, mlp, observed, round_of
from torch import nn
from torch.nn.functional import dropout

from leakbench.audit.attacks import attack
from leakbench.audit.audit import of_client
from leakbench.audit.client import facts, view
from leakbench.audit.findings import LABELLED, READ
from leakbench.audit.predictions import look, replay


def read(name: str, network: nn.Module, records: int, first: int) -> tuple[int, int]:
    """Return how many records an attack was predicted to read, and how many it reads."""
    observation, truth = observed(network, faces(records, first))
    found = attack(name, observation, truth, 60)
    assert not found.why_not
    # What peeling proves must be a record: two classes and few neurons leave little to tell records by.
    assert name == "fidel" or found.proven == found.count(READ) == found.count(LABELLED)
    return look(observation, truth).predicted[name], found.count(READ)


@pytest.mark.parametrize("name", ["fidel", "peel"])
@pytest.mark.parametrize(("hidden", "records"), [((1000,), 16), ((1000,), 48), ((400, 100), 12), ((60,), 10)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_attacks_find_what_is_predicted(name: str, hidden: tuple[int, ...], records: int, seed: int) -> None:
    predicted, found = read(name, mlp(*hidden, seed=seed), records, 50 * seed)
    assert found == predicted


def test_predictions_are_not_trivial() -> None:
    # Fidel reads some and not all, peeling all of them, and a narrow network gives neither everything.
    assert 0 < read("fidel", mlp(1000), 32, 0)[1] < 32
    assert read("peel", mlp(1000), 32, 0) == (32, 32)
    assert read("peel", mlp(40), 32, 0)[1] < 32


def test_peeling_is_replayed_on_bits() -> None:
    # The first neuron gives away record 0, after which the second gives away record 1.
    bits = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 1], [0, 0, 1]], dtype=torch.bool)
    assert [replay(bits), replay(torch.ones_like(bits)), replay(torch.eye(3, dtype=torch.bool))] == [2, 0, 3]
    # What is sent must be what the records cause: of an optimiser of one's own nothing is predicted.
    played = round_of(mlp(400), 8)
    update = played.update | {"1.weight": played.update["1.weight"].sign()}
    assert look(*view(replace(played, update=update))).predicted == {}
    # A function that drops units is noticed by what it draws.
    for training in (True, False):
        torch.manual_seed(0)
        played = round_of(dropping(training))
        observation, _ = view(played)
        dropout = facts(played, observation)["dropout"]
        assert (observation.dropout, dropout) == (training, "yes" if training else "no")


def around() -> nn.Module:
    """Return a network that reads the records beside its first layer too."""
    return Own(
        lambda net, x: net.b(net.a(x.flatten(1)).relu()) + net.c(x.flatten(1)),
        a=nn.Linear(625, 100), b=nn.Linear(100, 2), c=nn.Linear(625, 2),
    )  # fmt: skip


def twice() -> nn.Module:
    return Own(
        lambda net, x: net.b(net.a(x.flatten(1)).relu() + net.a(0.5 * x.flatten(1)).relu()),
        a=nn.Linear(625, 100), b=nn.Linear(100, 2),
    )  # fmt: skip


def tied() -> nn.Module:
    first, second = nn.Linear(625, 100), nn.Linear(625, 100)
    second.weight = first.weight
    return Own(
        lambda net, x: net.c(net.a(x.flatten(1)).relu() + net.b(x.flatten(1).flip(1)).relu()),
        a=first, b=second, c=nn.Linear(100, 2),
    )  # fmt: skip


def dropping(training: bool) -> nn.Module:
    """Return a network that calls a function that drops units."""
    return Own(
        lambda net, x: net.b(dropout(net.a(x.flatten(1)).relu(), 0.5, net.training)),
        a=nn.Linear(625, 100), b=nn.Linear(100, 2),
    ).train(training)  # fmt: skip


def dense(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), *layers)


def convolved(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (1, 25)), *layers)


def normed() -> nn.Module:
    return dense(nn.Linear(625, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 2))


def turned(**more: nn.Module) -> nn.Module:
    parts = {"head": nn.Linear(50, 2), "body": nn.Linear(625, 50)}
    return Own(lambda net, x: net.head(net.body(x.flatten(1))), **parts, **more)


UNSENT = "the weight of the {} dense layer, {}, is not trained and not sent"
SMOOTH = {"loss": nn.CrossEntropyLoss(label_smoothing=0.1)}
UNREAD = {"labels": "label counts are not read off it"}
SHARED = {"prediction": "used more than once, or shares its weights"}
# Network → how it is made, the client's settings, words of the facts, and the attacks whose findings are
# predicted.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], dict[str, str], set[str]]] = {
    "dense": (lambda: mlp(400), {}, {"activation": "closes neurons"}, {"fidel", "peel"}),
    "behind a convolution": (
        lambda: convolved(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(1058, 50), nn.ReLU(), nn.Linear(50, 2)),
        {}, {"first layer": "features"}, set(),
    ),
    "without ReLU": (
        lambda: dense(nn.Linear(625, 50), nn.Tanh(), nn.Linear(50, 2)), {}, {"activation": "every neuron"},
        {"fidel"},
    ),
    "twice": (twice, {}, SHARED, set()),
    "tied": (tied, {}, SHARED, set()),
    "around": (around, {}, {}, {"fidel"}),
    "drops, training": (lambda: dropping(True), {}, {}, set()),
    "drops, evaluation": (lambda: dropping(False), {}, {}, {"fidel", "peel"}),
    "another loss": (lambda: mlp(400), SMOOTH, {"labels": "not the mean cross-entropy"}, set()),
    "low precision": (lambda: mlp(400).bfloat16(), {}, {"activation": "closes neurons"}, set()),
    "several steps": (lambda: mlp(400), {"steps": 2}, {}, set()),
    "no dense layer": (lambda: convolved(nn.Conv2d(1, 2, 25), nn.Flatten()), {}, UNREAD, set()),
    "unused layer": (lambda: turned(more=nn.Linear(3, 2)), {}, UNREAD, {"fidel"}),
    "another order": (turned, {}, UNREAD, {"fidel"}),
    "batch norm, training": (normed, {}, {"batch norm": "mean and variance of the batch"}, set()),
    "batch norm, evaluation": (
        lambda: normed().eval(), {}, {"batch norm": "send nothing"}, {"fidel", "peel"},
    ),
    "first layer frozen": (
        lambda: frozen(mlp(400), "1.weight", "1.bias"), {},
        {"prediction": f"none: {UNSENT.format('first', 1)}"}, set(),
    ),
    "first bias frozen": (
        lambda: frozen(mlp(400), "1.bias"), {},
        {"prediction": "the bias of the first dense layer, 1, is not trained"}, set(),
    ),
    "last layer frozen": (
        lambda: frozen(mlp(40), "3.weight", "3.bias"), {},
        {"labels": f"{UNSENT.format('last', 3)}: label counts are not read off it"}, {"fidel", "peel"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_what_holds_of_a_network_is_said_and_predicted(name: str) -> None:
    make, settings, words, predicted = NETWORKS[name]
    torch.manual_seed(0)
    observation, truth = observed(make(), 8, **settings)
    seen = look(observation, truth)
    assert {question: word in seen.facts[question] for question, word in words.items()} == dict.fromkeys(
        words, True
    )
    assert seen.predicted.keys() == predicted
    counted = "neurons open for one record alone" in seen.facts
    assert counted == bool(seen.degrees)
    if "frozen" in name and not predicted:
        assert not counted
        assert ("rank" in seen.facts) == ("bias" in name)
    if words in (SHARED,) or name == "behind a convolution":
        assert not seen.degrees


class Squared(torch.autograd.Function):
    """x², whose backward pass takes its input for a constant if `fixed`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, fixed: bool) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.fixed = fixed
        return x.square()

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        return 2 * slope * (x.detach() if ctx.fixed else x), None


@pytest.mark.parametrize("wrong", [True, False])
def test_a_wrong_second_derivative_is_named(wrong: bool) -> None:
    torch.manual_seed(0)
    network = Own(
        lambda net, x: net.b(Squared.apply(net.a(x.flatten(1)), wrong)),
        a=nn.Linear(625, 20),
        b=nn.Linear(20, 2),
    )
    found = of_client(client_of(network), 1, lambda line: None)
    assert ("second derivatives" in found.look.facts) == wrong
    assert any(line.startswith("Second derivatives: ") for line in found.assumptions) == wrong
    assert found.least == wrong
