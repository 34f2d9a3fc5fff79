"""What the look predicts is what the attacks find."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from clients import Own, faces, mlp
from torch import nn
from torch.nn.functional import dropout

from leakbench.audit.attacks import catalogue, exact
from leakbench.audit.client import client
from leakbench.audit.found import LABELLED, READ
from leakbench.audit.look import look, replay
from leakbench.audit.view import facts, view


def read(name: str, network: nn.Module, records: int, first: int) -> tuple[int, int]:
    """Return how many records an attack was predicted to read, and how many it reads.

    What peeling proves must be a record: two classes and few neurons leave little to tell records by.
    """
    played = client((network, nn.CrossEntropyLoss(), faces(records, first)), local_steps=1).play()
    observation, truth = view(played)
    found = exact(name, catalogue()[name], observation, truth, 60)
    assert not found.why_not
    assert name == "fidel" or found.proven == found.count(READ) == found.count(LABELLED)
    return look(observation, truth).predicted[name], found.count(READ)


@pytest.mark.parametrize("name", ["fidel", "peel"])
@pytest.mark.parametrize(("hidden", "records"), [((1000,), 16), ((1000,), 48), ((400, 100), 12), ((60,), 10)])
@pytest.mark.parametrize("seed", [0, 1])
def test_predictions_are_what_the_attacks_find(
    name: str, hidden: tuple[int, ...], records: int, seed: int
) -> None:
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
    assert replay(bits) == 2
    assert replay(torch.ones(3, 4, dtype=torch.bool)) == 0
    assert replay(torch.eye(3, dtype=torch.bool)) == 3


def test_neurons_behind_convolutions_give_away_no_record() -> None:
    network = nn.Sequential(
        nn.Unflatten(1, (1, 25)),
        nn.Conv2d(1, 2, 3),
        nn.Flatten(),
        nn.Linear(1058, 50),
        nn.ReLU(),
        nn.Linear(50, 2),
    )
    played = client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play()
    seen = look(*view(played))
    assert "features" in seen.facts["first layer"]
    assert "neurons open for one record alone" not in seen.facts
    assert (seen.degrees, seen.predicted) == ([], {})


def test_networks_without_relu_are_told_apart() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(625, 50), nn.Tanh(), nn.Linear(50, 2))
    played = client((network, nn.CrossEntropyLoss(), faces(8)), local_steps=1).play()
    seen = look(*view(played))
    assert "every neuron" in seen.facts["activation"]
    assert seen.predicted == {"fidel": 0}


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


@pytest.mark.parametrize("make", [twice, tied])
def test_nothing_is_predicted_of_a_layer_that_does_more_than_read_the_records(
    make: Callable[[], nn.Module],
) -> None:
    torch.manual_seed(0)
    seen = look(*view(client((make(), nn.CrossEntropyLoss(), faces(8)), local_steps=1).play()))
    assert (seen.predicted, seen.degrees) == ({}, [])
    assert "used more than once, or shares its weights" in seen.facts["prediction"]


def test_peeling_is_not_predicted_where_records_are_read_beside_the_first_layer() -> None:
    torch.manual_seed(0)
    assert (
        "peel"
        not in look(
            *view(client((around(), nn.CrossEntropyLoss(), faces(8)), local_steps=1).play())
        ).predicted
    )


@pytest.mark.parametrize("training", [True, False])
def test_a_function_that_drops_units_is_noticed_by_what_it_draws(training: bool) -> None:
    torch.manual_seed(0)
    network = Own(
        lambda net, x: net.b(dropout(net.a(x.flatten(1)).relu(), 0.5, net.training)),
        a=nn.Linear(625, 100), b=nn.Linear(100, 2),
    )  # fmt: skip
    played = client((network.train(training), nn.CrossEntropyLoss(), faces(8)), local_steps=1).play()
    observation, truth = view(played)
    assert observation.dropout == training
    assert facts(played, observation)["dropout"] == ("yes" if training else "no")
    assert bool(look(observation, truth).predicted) != training


def test_what_is_sent_must_be_what_the_records_cause() -> None:
    """An optimiser of one's own, or anything else that no condition names."""
    played = client((mlp(400), nn.CrossEntropyLoss(), faces(8)), local_steps=1).play()
    assert look(*view(played)).predicted
    update = played.update | {"1.weight": played.update["1.weight"].sign()}
    assert look(*view(replace(played, update=update))).predicted == {}


@pytest.mark.parametrize("head", ["no dense layer", "unused", "in another order"])
def test_labels_are_read_only_off_a_last_layer_that_returns_scores(head: str) -> None:
    parts = {"head": nn.Linear(50, 2), "body": nn.Linear(625, 50)}
    network = {
        "no dense layer": nn.Sequential(nn.Unflatten(1, (1, 25)), nn.Conv2d(1, 2, 25), nn.Flatten()),
        "unused": Own(lambda net, x: net.head(net.body(x.flatten(1))), **parts, more=nn.Linear(3, 2)),
        "in another order": Own(lambda net, x: net.head(net.body(x.flatten(1))), **parts),
    }[head]
    seen = look(*view(client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play()))
    assert "label counts are not read off it" in seen.facts["labels"]


def test_of_other_losses_nothing_is_predicted() -> None:
    network = mlp(400)
    played = client((network, nn.CrossEntropyLoss(label_smoothing=0.1), faces(8)), local_steps=1).play()
    assert not played.plain_loss
    seen = look(*view(played))
    assert seen.predicted == {}
    assert "not the mean cross-entropy" in seen.facts["labels"]


@pytest.mark.parametrize(
    ("training", "words"), [(True, "mean and variance of the batch"), (False, "send nothing")]
)
def test_statistics_are_sent_only_where_batch_norm_measures_them(training: bool, words: str) -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(625, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 2))
    played = client((network.train(training), nn.CrossEntropyLoss(), faces(8)), local_steps=1).play()
    assert words in look(*view(played)).facts["batch norm"]
