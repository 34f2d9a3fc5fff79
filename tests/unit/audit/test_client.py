"""Clients are read off their code, or refused in one sentence."""

from threading import Lock
from typing import Any

import numpy as np
import pytest
import torch
from clients import Own, client_of, faces, mlp, round_of
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy

from leakbench.audit.attacks import attack
from leakbench.audit.client import client, view
from leakbench.audit.findings import READ
from leakbench.audit.replay import round_in
from leakbench.audit.watch import watched
from leakbench.base.errors import UserError


class Centred(nn.Module):
    """Centres its inputs in place, and works on one number of records at most."""

    def __init__(self, least: int = 1) -> None:
        super().__init__()
        self.network = mlp(20, inputs=4)
        self.least = least

    def forward(self, x: Tensor) -> Tensor:
        assert len(x) >= self.least
        return self.network(x.sub_(0.5).div_(0.5))


def raising(problem: Exception) -> nn.Module:
    class Raises(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            raise problem

    return Raises(4, 2)


def uncopied() -> nn.Module:
    network = nn.Linear(4, 2)
    network.lock = Lock()  # type: ignore[assignment]
    return network


TWO = Own(lambda net, x, y: net.a(x + y), a=nn.Linear(4, 2))  # type: ignore[call-arg, misc, arg-type]
ENTROPY, THREE = nn.CrossEntropyLoss(), (torch.rand(3, 4), torch.zeros(3))
WORDS, ONES = nn.Embedding(9, 2), torch.ones(3, 4).long()
REFUSED = {
    "several inputs": (TWO, ENTROPY, (torch.rand(3, 4), torch.rand(3, 4), torch.zeros(3))),
    "one batch of inputs alone": (TWO, ENTROPY, (torch.rand(3, 4), torch.tensor([0, 1, 0]))),
    "no nn.Embedding.*give real": (nn.Linear(4, 2), ENTROPY, (torch.ones(3, 4).int(), torch.zeros(3))),
    "not a torch.nn.Module": (len, ENTROPY, THREE),
    "one row of numbers a record": (Own(lambda net, x: net.a(x).sum(), a=nn.Linear(4, 2)), ENTROPY, THREE),
    "fewer than --batch 9": (nn.Linear(4, 2), ENTROPY, THREE),
    "torch.float32 on meta": (nn.Linear(4, 2, device="meta"), ENTROPY, THREE),
    "NaN": (nn.Linear(4, 2), ENTROPY, (torch.full((3, 4), torch.nan), torch.zeros(3))),
    r"targets \(\) are no batch": (nn.Linear(4, 2), ENTROPY, (torch.rand(3, 4), torch.tensor(1))),
    r"of shape \(\), neither": (nn.Linear(4, 2), ENTROPY, (torch.tensor(1.0), torch.zeros(3))),
    "type numpy.object_": (nn.Linear(4, 2), ENTROPY, (torch.rand(3, 4), np.array([None] * 3))),
    "no data": (nn.Linear(4, 2), ENTROPY, (torch.rand(3, 4, device="meta"), torch.zeros(3))),
    "weight has no shape yet": (nn.LazyLinear(2), ENTROPY, THREE),
    "cannot be copied": (uncopied(), ENTROPY, THREE),
    r"model fails on the batch.*KeyError: 'k'": (raising(KeyError("k")), ENTROPY, THREE),
    r"model fails on the batch.*\(AssertionError\)": (raising(AssertionError()), ENTROPY, THREE),
    r"no parameter is trained \(set requires_grad": (nn.Linear(4, 2).requires_grad_(False), ENTROPY, THREE),
    r"depends on no parameter that is trained .*no_grad": (
        Own(lambda net, x: net.a(x).detach(), a=nn.Linear(4, 2)), lambda z, y: z.sum(), THREE,
    ),
    r"token 299 is not in the vocabulary: .* has 9 rows .is it": (WORDS, ENTROPY, (ONES * 299, THREE[1])),
    r"token -1 is not in the vocabulary": (WORDS, ENTROPY, (-ONES, THREE[1])),
    "neither real numbers nor tokens": (WORDS, ENTROPY, (ONES[:, None], THREE[1])),
    "loss fails on what.*ZeroDivisionError": (nn.Linear(4, 2), lambda scores, targets: 1 / 0, THREE),
}  # fmt: skip


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_audited_is_refused_in_one_sentence(words: str) -> None:
    with pytest.raises(UserError, match=words):
        client(REFUSED[words], 9 if "--batch" in words else None).play()


def on_a_graph(net: Any, nodes: Tensor, near: Tensor) -> Tensor:
    return net.last((near @ net.a(nodes)).relu().mean(1))


def on_both(net: Any, image: Tensor, table: Tensor) -> Tensor:
    return net.last(net.a(torch.cat([image.flatten(1), table.flatten(1)], 1)).relu())


# A network with two inputs, these, and whether a first layer reads whole records.
INPUTS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], int, bool]] = {
    "a picture and a table": (on_both, (1, 12), (1, 4), 16, True),
    "nodes and their edges": (on_a_graph, (5, 7), (5, 5), 7, False),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("trains", [False, True])
def test_a_network_with_several_inputs_is_refused_and_the_way_round_works(kind: str, trains: bool) -> None:
    computes, one, other, width, reads = INPUTS[kind]
    torch.manual_seed(0)
    own = Own(computes, a=nn.Linear(width, 300), last=nn.Linear(300, 3))
    first, second, targets = torch.rand(6, *one), torch.rand(6, *other), torch.arange(6) % 3

    def round_with(network: nn.Module, *inputs: Any) -> Any:
        def train() -> None:
            optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
            optimiser.zero_grad()
            cross_entropy(network(*inputs), targets).backward()
            optimiser.step()

        if trains:
            return round_in(watched(train)[1])
        return client_of(network, (inputs if len(inputs) > 1 else inputs[0], targets)).play()

    way = r"several inputs.*\(put .* into a module that takes one tensor .*\[records, …\] and splits it"
    with pytest.raises(UserError, match=way):
        round_with(own, first, second)
    inside = Own(lambda net, x: net.whole(*x.split([one[1], other[1]], 2)), whole=own)
    played = round_with(inside, torch.cat([first, second], 2))
    assert (played.differs, played.plain_loss) == ({}, True)
    seen = view(played)
    if reads:
        assert attack("fidel", *seen, 60).count(READ) == 6
    else:
        # A search runs, on the numbers of both.
        assert attack("invg", *seen, 60, longest=5).trials


def test_steps_are_a_whole_number_and_a_rate_is_above_0() -> None:
    for steps in (0, -3, 1.5, "5", True):
        with pytest.raises(UserError, match=r"local_steps is .*, not a whole number above 0"):
            client_of(nn.Linear(4, 2), THREE, steps=steps)  # type: ignore[arg-type]
    for lr in (0, -1, "0.1", None, True, np.nan, np.inf):
        with pytest.raises(UserError, match=r"lr is .*, not a rate above 0"):
            client_of(nn.Linear(4, 2), THREE, lr=lr)  # type: ignore[arg-type]
    played = round_of(Centred(least=3), (torch.rand(3, 4), torch.tensor([0, 1, 0])), steps=5)
    with pytest.raises(UserError, match=r"fails on one record alone.*\(AssertionError"):
        view(played)


@pytest.mark.parametrize("steps", [1, 2])
def test_what_changes_its_inputs_in_place_changes_no_record(steps: int) -> None:
    inputs, targets = torch.rand(3, 4), torch.tensor([0, 1, 0])
    batch = inputs.clone(), targets.clone()
    model = Centred()

    def shifting(scores: Tensor, classes: Tensor) -> Tensor:
        return cross_entropy(scores, classes.add_(1).sub_(1).clamp_(0, 1))

    played = round_of(model, batch, steps=steps, loss=shifting)
    plain = round_of(model.network, (2 * inputs - 1, targets), steps=steps)
    for name, value in plain.update.items():
        assert torch.allclose(played.update[f"network.{name}"], value, atol=1e-6)
    observation, truth = view(played)
    before = truth.images.clone()
    observation.model()(truth.images)
    assert torch.equal(truth.images, before)
    assert torch.equal(batch[0], inputs)
    assert torch.equal(batch[1], targets)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_loss_may_read_the_network_itself(steps: int) -> None:
    """Weight decay as part of the loss: the update has its share, and the network is as it was afterwards."""
    batch, network = faces(4), mlp(20)
    before = {name: value.clone() for name, value in network.state_dict().items()}

    def decaying(scores: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(scores, targets) + 0.05 * network[1].weight.square().sum()

    alone, own = (
        client_of(network, batch, steps=steps, lr=0.1, loss=loss) for loss in (cross_entropy, decaying)
    )
    plain, played = alone.play(), own.play()
    assert (own.reads_network(), alone.reads_network()) == (True, False)
    # One step sends the gradient and several send weights.
    assert plain.kind == ("gradient" if steps == 1 else "model")
    slope = torch.autograd.grad(cross_entropy(network(batch[0]), batch[1]), network[1].weight)[0]
    if steps == 1:
        assert torch.equal(plain.update["1.weight"], slope)
    else:
        assert cosine_similarity(plain.update["1.weight"].flatten(), -slope.flatten(), 0) > 0.9
    # Of one step, what decays is known and taken out, so that the plain gradient is left.
    assert played.plain_loss == (steps == 1)
    assert played.loss == "mean cross-entropy and more"
    assert "0.1 times the weights" in played.differs["weights"]
    near = 1e-6 if steps == 1 else 1e-4
    assert torch.allclose(played.update["1.weight"], plain.update["1.weight"], atol=near)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_an_observation_maps_ranges_and_single_logits() -> None:
    torch.manual_seed(0)
    inputs, targets = 5 * torch.randn(6, 3, 4, 4) + 2, torch.randint(0, 2, (6,)).float()
    network = nn.Sequential(nn.Flatten(), nn.Linear(48, 10), nn.ReLU(), nn.Linear(10, 1))
    loss = nn.BCEWithLogitsLoss()
    played = round_of(network, (inputs, targets), loss=lambda z, y: loss(z.flatten(), y))
    observation, truth = view(played)
    assert played.plain_loss
    assert observation.network == {"shape": [4, 4, 3], "classes": 2}
    assert (float(truth.images.min()), float(truth.images.max())) == (0.0, 1.0)
    model = observation.model()
    scores = model(truth.images)
    assert torch.allclose(scores[:, 1:], network(inputs), atol=1e-5)
    # SPEAR asks about the samples that it proved, of which there may be none.
    assert model(truth.images[:0]).shape == (0, 2)
    gradient = torch.autograd.grad(
        cross_entropy(scores, truth.labels), dict(model.named_parameters())["network.1.weight"]
    )
    assert torch.allclose(gradient[0], played.update["1.weight"], atol=1e-6)


def step(**settings: float) -> tuple[Any, Any]:
    (inputs, targets), network = faces(4), mlp(10)

    def train() -> None:
        optimiser = torch.optim.SGD(network.parameters(), **settings)
        cross_entropy(network(inputs), targets).backward()
        optimiser.step()

    return watched(train)


def test_training_of_ones_own_is_read_off_while_it_runs() -> None:
    (inputs, targets), network = faces(8), mlp(30)
    before = {name: value.clone() for name, value in network.state_dict().items()}

    def train() -> None:
        optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
        for part in [slice(0, 4), slice(4, 8)] * 3:
            optimiser.zero_grad()
            nn.CrossEntropyLoss()(network(inputs[part]), targets[part]).backward()
            optimiser.step()
        with torch.no_grad():
            network(torch.zeros(1, 25, 25))

    returned, watch = watched(train)
    played = round_in(watch)
    assert returned is None
    assert torch.equal(played.inputs, inputs)
    assert torch.equal(played.targets, targets)
    assert (played.lr, played.steps, played.batch_size, played.plain_steps) == (0.05, 3, 4, True)
    for name, value in network.named_parameters():
        assert torch.allclose(before[name] + played.update[name], value, atol=1e-7)
    # Momentum is told.
    played = round_in(step(lr=0.05, momentum=0.9)[1])
    assert (played.plain_steps, played.optimiser) == (False, "SGD at rate 0.05, momentum 0.9")
    # Training that comes to nothing, and of nothing, is refused.
    for lr, says in ((float("nan"), "holds NaN or Inf"), (0.0, "rate is 0, not above")):
        with pytest.raises(UserError, match=says):
            round_in(step(lr=lr)[1])
    with pytest.raises(UserError, match="neither returned"):
        round_in(watched(lambda: None)[1])
