"""Random clients: an audit takes for granted what is true, and reads what their gradient gives away."""

import random
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from nightly import daily
from torch import Tensor, nn
from torch.nn import functional

from leakbench.audit.attacks import attack
from leakbench.audit.audit import of_round
from leakbench.audit.client import view
from leakbench.audit.findings import READ, Attempt, combined
from leakbench.audit.replay import Round, round_in
from leakbench.audit.watch import watched

Loss = Callable[[Tensor, Tensor], Tensor]
# The mean cross-entropy, up to a factor.
PLAIN: dict[str, Loss] = {
    "cross entropy": functional.cross_entropy,
    "log-likelihood": lambda z, y: functional.nll_loss(functional.log_softmax(z, 1), y),
    "sum": lambda z, y: functional.cross_entropy(z, y, reduction="sum"),
}


def of_parts(loss: Callable[..., Tensor]) -> Loss:
    return lambda z, y: loss(z, functional.one_hot(y, z.shape[1]).float())


OTHERS: dict[str, Loss] = {
    "smoothed": lambda z, y: functional.cross_entropy(z, y, label_smoothing=0.1),
    "weighted": lambda z, y: functional.cross_entropy(z, y, weight=torch.arange(1.0, z.shape[1] + 1)),
    "squared": of_parts(functional.mse_loss),
    "multi-label": of_parts(functional.binary_cross_entropy_with_logits),
    "Huber": of_parts(functional.smooth_l1_loss),
}
OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda of: torch.optim.SGD(of, lr=0.1),
    "momentum": lambda of: torch.optim.SGD(of, lr=0.1, momentum=0.9),
    "decay": lambda of: torch.optim.SGD(of, lr=0.1, weight_decay=0.01),
    "Adam": lambda of: torch.optim.Adam(of, lr=0.01),
    "AdamW": lambda of: torch.optim.AdamW(of, lr=0.01),
}


@dataclass
class Client:
    """A client that trains, drawn from a seed."""

    seed: int

    def __post_init__(self) -> None:
        draw = random.Random(self.seed)
        torch.manual_seed(self.seed)
        self.records, classes = draw.choice([2, 4, 8, 12]), draw.choice([2, 3, 10])
        inputs, width, inner = draw.choice([20, 36]), draw.choice([120, 300, 500]), draw.choice([0, 0, 60])
        active = draw.choice([nn.ReLU, nn.ReLU, nn.Tanh, nn.GELU, nn.LeakyReLU])
        norm = draw.choice([None, None, nn.BatchNorm1d(width), nn.BatchNorm1d(width).eval()])
        self.drops = draw.choice([0.0, 0.0, 0.3])
        layers = [nn.Linear(inputs, width, bias=draw.random() < 0.9), norm, active()]
        layers += [nn.Dropout(self.drops) if self.drops else None]
        layers += [nn.Linear(width, inner), active()] if inner else []
        layers += [nn.Linear(inner or width, classes)]
        self.network = nn.Sequential(*filter(None, layers))
        self.inputs = torch.rand(self.records, inputs) * torch.rand(self.records, 1)
        self.targets = torch.randint(0, classes, (self.records,))
        self.loss = draw.choice([*PLAIN, *OTHERS])
        self.optimiser, self.steps = draw.choice(["SGD", "SGD", *OPTIMISERS]), draw.choice([1, 1, 2, 3])
        self.pieces = 1 if norm and norm.training else draw.choice([1, 1, 2])
        self.term = draw.choice(["", "", "proximal", "decay"])
        self.change = draw.choice(["", "", "clip", "noise"])
        self.cast = draw.random() < 0.1
        self.sent = deepcopy(self.network)

    def of(self, network: nn.Module, part: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, self.cast):
            scores = network(self.inputs[part])
        return (PLAIN | OTHERS)[self.loss](scores.float(), self.targets[part])

    def train(self) -> None:
        torch.manual_seed(self.seed)
        optimiser = OPTIMISERS[self.optimiser](self.network.parameters())
        for _ in range(self.steps):
            optimiser.zero_grad()
            for part in torch.arange(self.records).chunk(self.pieces):
                (self.of(self.network, part) / self.pieces + self.more()).backward()
            if self.change == "clip":
                nn.utils.clip_grad_norm_(self.network.parameters(), 0.05)
            for parameter in self.network.parameters() if self.change == "noise" else ():
                assert parameter.grad is not None
                parameter.grad += 0.01 * torch.randn_like(parameter)
            optimiser.step()

    def more(self) -> Any:
        if self.term == "proximal":
            pairs = zip(self.network.parameters(), self.sent.parameters(), strict=True)
            return 2.5 * sum((p - q.detach()).square().sum() for p, q in pairs)
        weights = self.network.parameters() if self.term == "decay" else ()
        return 0.05 * sum(p.square().sum() for p in weights if p.dim() > 1)

    def known(self) -> bool:
        """Whether attacks know all of the training, after what an audit takes out of the update."""
        several = self.steps > 1
        odd = self.optimiser in ("Adam", "AdamW") or (self.optimiser == "momentum" and several)
        odd |= self.change == "noise" or self.cast or (self.change == "clip" and several)
        return self.loss in PLAIN and not odd and not (self.term == "proximal" and several)

    def gradient(self, played: Round) -> Round:
        """Return the round in which the server receives the gradient of the loss alone."""
        found = torch.autograd.grad(self.of(self.sent, torch.arange(self.records)), [*self.sent.parameters()])
        names = [name for name, _ in self.sent.named_parameters()]
        return replace(played, update=dict(zip(names, found, strict=True)), kind="gradient")


def exact(played: Round) -> list[Attempt]:
    return [attack(name, *view(played), 60) for name in ("fidel", "peel")]


def read(found: list[Attempt]) -> int:
    return sum(level >= READ for level in combined(found, "AB"))


# Attacks prove samples of these that are off by more than half a level, means of records that rounding hides,
# or neurons that hold a little of others; and two smoothed classes are nearly a plain loss of a lower weight,
# as are more in a low precision.
ODD = 26, 80, 136, 227, 370, 267, 5033, 5066, 5366, 5780


@pytest.mark.parametrize("seeds", [*daily([range(n, n + 20) for n in range(0, 200, 20)], [range(20)]), ODD])
def test_an_audit_of_a_random_client_is_true(seeds: Iterable[int]) -> None:
    for client in map(Client, seeds):
        played = round_in(watched(client.train)[1])
        # The weighted mean of a single record is not weighted.
        alone = client.pieces * (client.loss == "weighted") == client.records
        assert played.least() or alone or client.known(), client
        assert played.least() or not client.drops, client
        assert client.loss in PLAIN or alone or not played.plain_loss, client
        assert played.replayed == (client.steps,) * 2, client
        assert (played.precision != "") == client.cast, client
        found = exact(played)
        assert all(each.proven <= each.count(READ) for each in found), client
        # A step that is clipped, or beside a term that reads the weights, is small: rounding hides records.
        whole = client.steps == 1 and not (client.cast or client.drops or client.change or client.term)
        if whole and client.optimiser not in ("Adam", "AdamW"):
            assert read(found) >= read(exact(client.gradient(played))), client


def test_records_that_rounding_hides_are_not_denied() -> None:
    client = Client(391)
    played = round_in(watched(client.train)[1])
    assert read(exact(played)) < read(exact(client.gradient(played))) == client.records
    assert not played.least()
    found = of_round(played, 5, lambda _: None)
    assert "(at least)" in found.headline()
    assert any("rounded" in sentence for sentence in found.assumptions)
