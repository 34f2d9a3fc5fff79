"""Parameters that are not trained: nothing is sent of them, and no attack takes them for zeros."""

from collections.abc import Callable

import pytest
import torch
from clients import Own, faces, mlp
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.audit.alarms import alarms
from leakbench.audit.attacks import besides, catalogue, exact, matching
from leakbench.audit.audit import of_client
from leakbench.audit.client import client
from leakbench.audit.found import READ, RECOGNISABLE
from leakbench.audit.look import look
from leakbench.audit.remedies import remedies
from leakbench.audit.replay import watched
from leakbench.audit.view import fixed, view
from leakbench.base.errors import UserError


def frozen(network: nn.Module, *names: str) -> nn.Module:
    """Freeze parameters of a network in place, and return the network."""
    for name in names:
        network.get_parameter(name).requires_grad_(False)
    return network


@pytest.mark.parametrize("steps", [1, 2])
def test_what_is_not_trained_is_not_sent(steps: int) -> None:
    network = frozen(mlp(60, 20), "1.weight", "1.bias")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    own = client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=steps)
    played = own.play()
    observation, _ = view(played)
    assert list(played.update) == ["3.weight", "3.bias", "5.weight", "5.bias"]
    assert played.plain_loss
    model = observation.model()
    assert {name for name, _ in model.named_parameters()} == set(observation.updates)
    assert torch.equal(model.get_buffer("network.1.weight"), before["1.weight"])
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    found = of_client(own, 1, lambda line: None)
    assert found.about["not trained"] == "2 of 6 tensors"
    assert any("2 of 6 tensors are not trained" in line for line in found.assumptions)


def test_a_layer_that_no_loss_reaches_is_not_trained() -> None:
    network = Own(lambda net, x: net.a(x.flatten(1)), a=nn.Linear(625, 2), b=nn.Linear(3, 2))
    played = client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play()
    assert list(played.update) == ["a.weight", "a.bias"]


def test_nothing_is_predicted_or_read_of_a_first_layer_that_is_not_sent() -> None:
    network = frozen(mlp(400), "1.weight", "1.bias")
    observation, truth = view(client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play())
    seen = look(observation, truth)
    why = "the weight of the first dense layer, 1, is not trained and not sent"
    assert (seen.predicted, seen.facts["prediction"]) == ({}, f"none: {why}")
    assert not {"rank", "neurons open for one record alone"} & set(seen.facts)
    for name in ("fidel", "peel", "spear"):
        assert exact(name, catalogue()[name], observation, truth, 60).why_not == why
    (isolation,) = [each for each in alarms([(observation, truth)], 600) if each.detector == "isolation"]
    assert isolation.why_not == "the weight of the first dense layer is not trained and not sent"


def test_without_the_bias_records_are_known_up_to_their_scale() -> None:
    network, (pictures, labels) = frozen(mlp(400), "1.bias"), faces(4)
    pictures = pictures / pictures.flatten(1).amax(1)[:, None, None]
    played = client((network, nn.CrossEntropyLoss(), (pictures, labels)), local_steps=1).play()
    observation, truth = view(played)
    seen = look(observation, truth)
    assert seen.predicted == {}
    assert "the bias of the first dense layer, 1, is not trained" in seen.facts["prediction"]
    assert exact("fidel", catalogue()["fidel"], observation, truth, 60).count(READ) > 0
    assert (
        "the bias of the first dense layer, 1, is"
        in exact("peel", catalogue()["peel"], observation, truth, 60).why_not
    )


def test_no_label_is_read_off_a_last_layer_that_is_not_sent() -> None:
    network = frozen(mlp(40), "3.weight", "3.bias")
    observation, truth = view(client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play())
    why = "the weight of the last dense layer, 3, is not trained and not sent"
    assert look(observation, truth).facts["labels"] == f"{why}: label counts are not read off it"
    counts = next(each for each in besides(observation, truth) if each.title == "label counts")
    assert (counts.line, counts.ran) == (why, False)


def ramp() -> tuple[Tensor, Tensor]:
    slope = torch.linspace(0, 1, 8)
    return (slope[:, None] * slope)[None, None], torch.tensor([1])


def test_a_search_matches_only_what_was_sent() -> None:
    """Behind a frozen convolution AGIC finds what it finds without one."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Conv2d(8, 8, 3, padding=1), nn.Sigmoid(),
        nn.Flatten(), nn.Linear(512, 4),
    )  # fmt: skip
    network = frozen(network, "0.weight", "0.bias")
    observation, truth = view(client((network, nn.CrossEntropyLoss(), ramp()), local_steps=1).play())
    found = matching("agic", catalogue()["agic"] | {"longest": 100}, observation, truth, 60)
    assert not found.why_not
    assert found.count(RECOGNISABLE) == 1


def test_a_search_seeks_the_labels_that_nothing_counts() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Conv2d(8, 4, 8), nn.Flatten())
    observation, truth = view(client((network, nn.CrossEntropyLoss(), ramp()), local_steps=1).play())
    found = matching("invg", catalogue()["invg"] | {"longest": 100}, observation, truth, 60)
    assert (found.why_not, found.sought, found.trials >= 3) == ("", True, True)
    assert found.line().endswith("which seek the labels too")


def test_a_client_that_trains_nothing_is_told_so() -> None:
    network = mlp(20).requires_grad_(False)
    with pytest.raises(UserError, match=r"no parameter is trained \(set requires_grad"):
        client((network, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play()

    def computes(net: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            return net.a(x.flatten(1))  # type: ignore[no-any-return]

    blind = Own(computes, a=nn.Linear(625, 2))
    with pytest.raises(UserError, match=r"depends on no parameter that is trained .*no_grad"):
        client((blind, nn.CrossEntropyLoss(), faces(4)), local_steps=1).play()


@pytest.mark.parametrize("chosen", ["by its optimiser", "by requires_grad"])
def test_training_of_the_head_alone_sends_the_head(chosen: str) -> None:
    network, (inputs, targets) = mlp(30), faces(4)
    if chosen == "by requires_grad":
        frozen(network, "1.weight", "1.bias")

    def train() -> None:
        own = network[3] if chosen == "by its optimiser" else network  # type: ignore[index]
        optimiser = torch.optim.SGD(own.parameters(), lr=0.05)
        cross_entropy(network(inputs), targets).backward()
        optimiser.step()

    played = watched(train)[1].read()
    assert list(played.update) == ["3.weight", "3.bias"]
    assert played.plain_loss
    assert set(view(played)[0].updates) == {"network.3.weight", "network.3.bias"}


@pytest.mark.parametrize("make", [lambda: nn.LSTM(5, 4), lambda: nn.MultiheadAttention(4, 2)])
def test_a_layer_with_fixed_weights_computes_what_it_did(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    layer = make()
    inputs = torch.rand(3, 2, 5)
    given = (inputs,) if isinstance(layer, nn.LSTM) else (inputs[..., :4],) * 3
    before = layer(*given)[0]
    fixed(layer, ())
    assert not list(layer.parameters())
    assert torch.equal(layer(*given)[0], before)
    for value in layer.buffers():
        value.zero_()
    assert not torch.equal(layer(*given)[0], before)


def test_a_bias_that_is_taken_away_is_measured() -> None:
    own = client((mlp(400), nn.CrossEntropyLoss(), faces(4)), local_steps=1)
    played = own.play()
    found = [exact("peel", catalogue()["peel"], *view(played), 60)]
    by = {each.what: each for each in remedies(own, played, found, 60)}
    taken = by["no bias in the first layer"]
    assert (taken.why_not, taken.before, taken.read) == ("", 4, 0)
