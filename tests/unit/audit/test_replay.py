"""What a client's code did is computed again, and what does not come out is named."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from clients import Own, client_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax, mse_loss, nll_loss, one_hot
from torch.utils.checkpoint import checkpoint

from leakbench.attacks.exact.membership import spans
from leakbench.audit.attacks import attack
from leakbench.audit.audit import of_client, of_round
from leakbench.audit.client import view
from leakbench.audit.findings import READ, RECOGNISABLE, combined
from leakbench.audit.inference import inferences
from leakbench.audit.predictions import look
from leakbench.audit.replay import Round, round_in
from leakbench.audit.watch import watched

RECORDS = 8


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(3)
    return torch.rand(RECORDS, 20), torch.arange(RECORDS) % 3


def wide() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 400), nn.ReLU(), nn.Linear(400, 3))


def trained(
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy, steps: int = 1, pieces: int = 1,
    zero: bool = True, change: Callable[[nn.Module], Any] = lambda network: None,
    after: Callable[[nn.Module], Any] = lambda network: None,
    term: Callable[[nn.Module, list[Tensor]], Any] = lambda network, sent: 0.0, cast: bool = False,
    by: Callable[..., torch.optim.Optimizer] = torch.optim.SGD, **settings: float,
) -> Round:  # fmt: skip
    """Return the round of a training function with this loss, steps, pieces of a batch, terms and changes."""
    network, (inputs, targets) = wide(), data()
    sent = [value.detach().clone() for value in network.parameters()]

    def train() -> None:
        optimiser = by(network.parameters(), **{"lr": 0.1} | settings)
        for _ in range(steps):
            if zero:
                optimiser.zero_grad()
            for part in torch.arange(RECORDS).chunk(pieces):
                with torch.autocast("cpu", torch.bfloat16, cast):
                    scores = network(inputs[part])
                (loss(scores.float(), targets[part]) / pieces + term(network, sent)).backward()
            change(network)
            optimiser.step()
        after(network)

    return round_in(watched(train)[1])


def pulled(network: nn.Module, sent: list[Tensor]) -> Tensor:
    apart = [(p - q).square().sum() for p, q in zip(network.parameters(), sent, strict=True)]
    return 2.5 * torch.stack(apart).sum()


def decayed(network: nn.Module, sent: list[Tensor]) -> Tensor:
    return 0.05 * torch.stack([p.square().sum() for p in network.parameters() if p.dim() > 1]).sum()


def clipped(network: nn.Module) -> None:
    nn.utils.clip_grad_norm_(network.parameters(), 0.2)


def noisy(network: nn.Module) -> None:
    for parameter in network.parameters():
        assert parameter.grad is not None
        parameter.grad += 0.01 * torch.randn_like(parameter)


def sparse_weights(network: nn.Module, sent: list[Tensor]) -> Tensor:
    return 0.01 * torch.stack([p.abs().sum() for p in network.parameters() if p.dim() > 1]).sum()


def sharpened(network: nn.Module) -> None:
    """Take the gradient where the first one leads to, as sharpness-aware minimisation does."""
    (inputs, targets), own = data(), list(network.parameters())
    ways = [0.05 * p.grad for p in own if p.grad is not None]
    for p, way in zip(own, ways, strict=True):
        p.data += way
    network.zero_grad()
    cross_entropy(network(inputs), targets).backward()
    for p, way in zip(own, ways, strict=True):
        p.data -= way


def controlled(network: nn.Module) -> None:
    rng = torch.Generator().manual_seed(9)
    for parameter in network.parameters():
        assert parameter.grad is not None
        parameter.grad += 0.05 * torch.randn(parameter.shape, generator=rng)


def edited(network: nn.Module) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.01)


def squared(scores: Tensor, targets: Tensor) -> Tensor:
    return mse_loss(scores, one_hot(targets, 3).float())


def both(scores: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(scores, targets) + squared(scores, targets)


def mixed(scores: Tensor, targets: Tensor) -> Tensor:
    return 0.7 * cross_entropy(scores, targets) + 0.3 * cross_entropy(scores, targets.flip(0))


def unscaled(network: nn.Module) -> None:
    for parameter in network.parameters():
        assert parameter.grad is not None
        parameter.grad /= 1024


def grouped(parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
    own = list(parameters)
    groups: list[dict[str, Any]] = [{"params": own[::2]}, {"params": own[1::2], "lr": 2 * lr}]
    return torch.optim.SGD(groups, lr=lr)


PLAIN = "mean cross-entropy"
SMOOTH = nn.CrossEntropyLoss(label_smoothing=0.1)
HEAVY = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 9.0]))
# What the client does → the loss in the report, the kinds of differences, whether numbers are lower bounds.
CLIENTS: dict[str, tuple[dict[str, Any], str, set[str], bool]] = {
    "plain": ({}, PLAIN, set(), False),
    "three plain steps": ({"steps": 3}, PLAIN, set(), False),
    "log-likelihood": ({"loss": lambda z, y: nll_loss(log_softmax(z, 1), y)}, PLAIN, set(), False),
    "accumulated": ({"pieces": 2}, PLAIN, set(), False),
    "sum": ({"loss": nn.CrossEntropyLoss(reduction="sum")}, f"8 times the {PLAIN}", set(), False),
    "momentum, once": ({"momentum": 0.9}, PLAIN, set(), False),
    "momentum": ({"momentum": 0.9, "steps": 3}, PLAIN, set(), True),
    "Nesterov": ({"momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "steps": 4}, PLAIN, set(), True),
    "decay, once": ({"weight_decay": 0.01}, PLAIN, set(), False),
    "decay": ({"weight_decay": 0.01, "steps": 3}, PLAIN, set(), True),
    "decay in the loss": ({"term": decayed}, f"{PLAIN} and more", {"weights"}, False),
    "Adam": ({"by": torch.optim.Adam}, PLAIN, {"steps"}, True),
    "AdamW": ({"by": torch.optim.AdamW, "steps": 3}, PLAIN, {"steps"}, True),
    "proximal": ({"term": pulled, "steps": 3}, f"{PLAIN} and more", {"pull"}, True),
    "no zero_grad": ({"zero": False, "steps": 3}, f"{PLAIN} and more", {"before"}, True),
    "clipped": ({"change": clipped}, PLAIN, {"scale"}, True),
    "values clipped": ({"change": lambda net: nn.utils.clip_grad_value_(net.parameters(), 0.001)},
                       f"{PLAIN} and more", {"clipped"}, True),
    "L1, once": ({"term": sparse_weights}, f"{PLAIN} and more", {"signs"}, False),
    "L1": ({"term": sparse_weights, "steps": 3}, f"{PLAIN} and more", {"signs"}, True),
    "sharpened": ({"change": sharpened, "steps": 3}, f"{PLAIN} and more", {"moved"}, True),
    "SCAFFOLD": ({"change": controlled, "steps": 3}, f"{PLAIN} and more", {"constant"}, True),
    "SCAFFOLD, once": ({"change": controlled}, f"{PLAIN} and more", {"unknown"}, True),
    "noise": ({"change": noisy}, f"{PLAIN} and more", {"unknown"}, True),
    "edited": ({"after": edited}, f"{PLAIN} and more", {"unknown"}, True),
    "smoothed": ({"loss": SMOOTH}, "cross entropy (label smoothing 0.1)", set(), True),
    "weighted": ({"loss": HEAVY}, "cross entropy (weight)", set(), True),
    "squared": ({"loss": squared}, "mse loss", set(), True),
    "two": ({"loss": both}, "cross entropy and mse loss", set(), True),
    "own": ({"loss": lambda z, y: z.square().mean()}, "not one of torch's own", set(), True),
    "autocast": ({"cast": True}, PLAIN, set(), True),
    "autocast, clipped": ({"cast": True, "change": clipped}, PLAIN, {"scale"}, True),
    "scaled": ({"loss": lambda z, y: 1024 * cross_entropy(z, y), "change": unscaled}, PLAIN, set(), False),
    "rates": ({"by": grouped}, PLAIN, set(), False),
    "decay twice": ({"term": decayed, "weight_decay": 0.01}, f"{PLAIN} and more", {"weights"}, False),
    "ascending": ({"maximize": True, "loss": lambda z, y: -cross_entropy(z, y)}, f"-1 times the {PLAIN}",
                  set(), True),
    "mixed": ({"loss": mixed}, "cross entropy and cross entropy", set(), True),
    "divergence": ({"loss": lambda z, y: kl_div(log_softmax(z, 1), one_hot(y, 3).float())}, "kl div",
                   set(), True),
}  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
def test_what_a_client_does_is_told(name: str) -> None:
    does, loss, kinds, least = CLIENTS[name]
    played = trained(**does)
    assert (played.loss, set(played.differs), played.least()) == (loss, kinds, least)
    assert played.replayed == (does.get("steps", 1),) * 2
    assert (played.precision == "bfloat16") == name.startswith("autocast")


# The private records are read all the same: a server knows its own weights, and a span needs no loss. One
# step proves them, and several steps leave a sum of gradients.
WHOLE = [
    "sum", "decay, once", "decay in the loss", "clipped", "smoothed", "weighted", "squared", "two", "scaled",
    "rates", "decay twice", "mixed", "L1, once", "own", "divergence",
]  # fmt: skip
SUMS = ["decay", "proximal", "no zero_grad", "momentum", "L1", "SCAFFOLD", "sharpened", "Nesterov"]
# Taken for plain training, these give as much away: their steps hardly differ.
ALIKE = {"scaled", "proximal", "no zero_grad", "momentum", "sharpened"}


@pytest.mark.parametrize("name", [*WHOLE, *SUMS, "Adam"])
def test_as_much_is_read_as_of_plain_training_and_less_by_a_wrong_reading(name: str) -> None:
    after: dict[str, Tensor] = {}
    keep = {"after": lambda network: after.update(network.state_dict())}
    played, sent = trained(**CLIENTS[name][0] | keep), wide().state_dict()
    wrong = {"kind": "model", "lr": 0.1, "plain_loss": True, "differs": {}, "optimiser": "SGD"}
    counts = []
    for each in (played, replace(played, update={n: v - sent[n] for n, v in after.items()}, **wrong)):
        found = [attack(exact, *view(each), 60) for exact in ("fidel", "peel")]
        counts.append((sum(level >= READ for level in combined(found, "AB")), found[1].proven))
    assert name == "Adam" or counts[0] == (RECORDS, RECORDS * (name in WHOLE))
    assert counts[1] == counts[0] if name in ALIKE else sum(counts[1]) < sum(counts[0])


def test_the_report_says_what_was_checked() -> None:
    lines: list[str] = []
    found = of_round(trained(steps=2), 1, lines.append)
    assert found.about["loss"] == PLAIN
    assert found.about["computed again"] == "2 of 2 steps"
    assert any(line.startswith("Checked: 2 of 2 local steps") for line in found.assumptions)
    found = of_round(trained(term=pulled, steps=3), 5, lines.append)
    assert any("FedProx" in line for line in found.assumptions)
    assert found.exposed() in (0, found.records) or "at least" in found.headline()
    assert found.recognisable() in (0, found.records) or "at least" in found.page()


def test_chance_and_modes_of_the_client_are_replayed_and_left_as_they_were() -> None:
    (inputs, targets), drawn = data(), []
    for watches in (False, True):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Linear(20, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Dropout(), nn.Linear(50, 3)
        )
        network[1].eval()

        def train(network: nn.Module = network) -> None:
            optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
            for _ in range(2):
                optimiser.zero_grad()
                cross_entropy(network(inputs), targets).backward()
                optimiser.step()

        if watches:
            assert round_in(watched(train)[1]).differs == {}
        else:
            train()
        drawn.append([*network.state_dict().values(), torch.rand(3)])
    assert all(torch.equal(one, other) for one, other in zip(*drawn, strict=True))


class Answer:
    """What a model of transformers returns."""

    def __init__(self, logits: Tensor) -> None:
        self.loss, self.logits = None, logits


def returning(what: Callable[[Tensor], Any]) -> nn.Module:
    return Own(lambda net, x: what(net.network(x)), network=wide())


@pytest.mark.parametrize(
    ("wrap", "scores"),
    [(Answer, lambda out: out.logits), (lambda z: {"out": z}, lambda out: out["out"]),
     (lambda z: (z, None), lambda out: out[0])],
)  # fmt: skip
def test_a_model_may_return_an_object(wrap: Callable[[Tensor], Any], scores: Callable[[Any], Tensor]) -> None:
    inputs, targets = data()
    own = client_of(returning(wrap), (inputs, targets), loss=lambda out, y: cross_entropy(scores(out), y))
    played = own.play()
    assert played.plain_loss
    assert attack("peel", *view(played), 60).count(READ) > 0


WEIGHTED = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 3.0]))
CLASSES = {"smoothed": SMOOTH, "weighted": WEIGHTED, "bfloat16": cross_entropy}


@pytest.mark.parametrize("kind", ["multi-label", "regression", "masks", *CLASSES])
def test_what_an_attack_does_not_need_is_no_reason_to_refuse(kind: str) -> None:
    inputs, targets = data()
    network: nn.Module = wide()
    loss: Any = nn.BCEWithLogitsLoss()
    wanted = one_hot(targets, 3).float()
    if kind == "regression":
        network, loss, wanted = nn.Sequential(*wide()[:2], nn.Linear(400, 1)), nn.MSELoss(), inputs[:, :1] * 7  # type: ignore[index]
    if kind == "masks":
        network, loss = nn.Sequential(wide(), nn.Unflatten(1, (3, 1))), cross_entropy
        wanted = targets[:, None]
    if kind in CLASSES:
        loss, wanted = CLASSES[kind], targets
    if kind == "bfloat16":
        network, inputs = network.bfloat16(), inputs.bfloat16()
    found = of_client(client_of(network, (inputs, wanted), loss=loss), 3, lambda line: None)
    by = {each.attack: each for each in found.found}
    if kind == "bfloat16":
        assert "bfloat16" in found.about["computes in"]
        assert found.recognisable() > 0
    else:
        assert by["peel"].count(READ) >= by["fidel"].count(READ) > 0
        assert found.labelled() == 0 or kind in CLASSES
    assert by["peel"].proven <= by["peel"].count(READ)
    assert found.headline() in found.page()


@pytest.mark.parametrize("as_list", [True, False])
def test_what_a_function_returns_is_what_was_sent(as_list: bool) -> None:
    """A client of Flower returns its weights, which it may have changed."""
    network, (inputs, targets) = wide(), data()

    def train() -> Any:
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
        cross_entropy(network(inputs), targets).backward()
        optimiser.step()
        noisy = {name: value + 1.0 for name, value in network.state_dict().items()}
        return ([value.numpy() for value in noisy.values()], 8, {}) if as_list else noisy

    returned, watch = watched(train)
    plain, played = round_in(watch), round_in(watch, returned)
    assert (set(plain.differs), set(played.differs)) == (set(), {"unknown"})
    for name, value in plain.update.items():
        assert torch.allclose(played.update[name], value + 1.0, atol=1e-5)


class Adapted(nn.Module):
    """A frozen dense layer with a low-rank adapter."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.frozen = nn.Linear(20, 30).requires_grad_(False)
        self.down, self.up = nn.Parameter(torch.randn(rank, 20)), nn.Parameter(torch.randn(30, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + x @ self.down.T @ self.up.T


@pytest.mark.parametrize(("rank", "by"), [(16, "0.down"), (16, "0.up"), (4, "")])
def test_members_are_recognised_by_an_adapter(rank: int, by: str) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(Adapted(rank), nn.ReLU(), nn.Linear(30, 3).requires_grad_(False))
    if by == "0.up":
        # As in the first step, in which nothing is sent of the other matrix.
        nn.init.zeros_(network[0].up)  # type: ignore[arg-type]
    batch = torch.rand(30, 20), torch.arange(30) % 3
    own = client_of(network, batch, records=RECORDS)
    observation, truth = view(own.play(), batch[0][RECORDS:])
    (found,) = [each for each in inferences(observation, truth) if each.title == "membership"]
    if by:
        assert found.line.startswith("8 of 8 records are recognised as members, and 0 of 22")
        assert f"by the rows of {by}" in found.line
    else:
        assert not found.ran
        assert "no matrix that reads the records" in found.line


Weights = dict[str, Tensor]


def by_hand(network: nn.Module, sent: Weights) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            assert parameter.grad is not None
            parameter.sub_(0.1 * parameter.grad)


def stepped(network: nn.Module, sent: Weights) -> None:
    torch.optim.SGD(network.parameters(), lr=0.1).step()


def in_two(network: nn.Module, sent: Weights) -> None:
    for layer in (network[2], network[0]):  # type: ignore[index]
        torch.optim.SGD(layer.parameters(), lr=0.1 if layer is network[2] else 0.3).step()  # type: ignore[index]


def moved(network: nn.Module, sent: Weights, sign: float = 1.0) -> Weights:
    stepped(network, sent)
    return {name: sign * (value - sent[name]) for name, value in network.state_dict().items()}


def body(network: nn.Module, sent: Weights) -> list[Any]:
    stepped(network, sent)
    return [value.numpy() for name, value in network.state_dict().items() if name[0] == "0"]


def sparse(network: nn.Module, sent: Weights) -> Weights:
    change = moved(network, sent)
    return {n: sent[n] + torch.where(v.abs() > v.abs().median(), v, 0) for n, v in change.items()}


# What a client does with its gradient and returns → the kinds of differences that are told.
SENDS: dict[str, tuple[Callable[[nn.Module, Weights], Any], set[str]]] = {
    "a gradient, as a list": (lambda net, sent: [p.grad.numpy() for p in net.parameters()], set()),  # type: ignore[union-attr]
    "a gradient, by name": (lambda net, sent: {n: p.grad for n, p in net.named_parameters()}, set()),
    "a gradient that is left": (lambda net, sent: None, set()),
    "a step by hand": (by_hand, set()),
    "two optimisers": (in_two, set()),
    "differences": (moved, set()),
    "differences before minus after": (lambda net, sent: moved(net, sent, -1.0), set()),
    "no head": (body, set()),
    "sparse": (sparse, {"unknown"}),
    "half": (lambda net, sent: (moved(net, sent), {n: v.half() for n, v in net.state_dict().items()})[1],
             {"unknown"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SENDS)
@pytest.mark.parametrize("teaches", [False, True])
def test_whatever_a_client_sends_is_read(name: str, teaches: bool) -> None:
    """Taken for new weights, a gradient or a difference gives no record away."""
    (send, kinds), network, teacher, (inputs, targets) = SENDS[name], wide(), wide(), data()

    def train() -> Any:
        sent = {n: v.clone() for n, v in network.state_dict().items()}
        if teaches:
            teacher(inputs)
        cross_entropy(network(inputs), targets).backward()
        return send(network, sent)

    returned, watch = watched(train)
    played = round_in(watch, returned)
    assert (played.loss.startswith(PLAIN), set(played.differs), played.least()) == (True, kinds, bool(kinds))
    assert kinds or attack("fidel", *view(played), 60).count(READ) == RECORDS
    assert (name == "no head") == ("2.weight" not in played.update)
    told = " ".join(played.differs.values())
    assert [name == kind for kind in ("sparse", "half")] == ["are zero" in told, "rounded to float16" in told]


def fitted(network: nn.Module, loss: Callable[[], Tensor]) -> Round:
    def train() -> None:
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
        loss().backward()
        optimiser.step()

    return round_in(watched(train)[1])


def test_a_network_that_opacus_wraps_is_audited() -> None:
    from opacus import GradSampleModule

    network, (inputs, targets) = GradSampleModule(wide()), data()
    played = fitted(network, lambda: cross_entropy(network(inputs), targets))
    assert (played.least(), played.differs, played.loss) == (False, {}, PLAIN)
    assert attack("fidel", *view(played), 60).count(READ) == RECORDS


def test_what_cannot_be_computed_again_is_told_with_how_to_mend_it() -> None:
    import random

    network = Own(lambda net, x: net.network(x * random.random()), network=wide())
    played = fitted(network, lambda: cross_entropy(network(data()[0]), data()[1]))
    assert (set(played.differs), played.least()) == ({"unknown", "random"}, True)
    assert "(draw them by torch.rand" in played.differs["random"]


@pytest.mark.parametrize("old", [False, True])
def test_weight_norm_leaves_more_to_be_found(old: bool) -> None:
    """A server that takes the norm apart reads every record; the attacks of the audit read none."""
    network, (inputs, targets) = wide(), data()
    (nn.utils.weight_norm if old else nn.utils.parametrizations.weight_norm)(network[0])  # type: ignore[index]
    played = fitted(network, lambda: cross_entropy(network(inputs), targets))
    assert (played.least(), played.plain_loss, set(played.differs)) == (True, True, {"computed"})
    assert attack("fidel", *view(played), 60).why_not
    # The weight is g times v over its norm.
    names = sorted(name for name in played.update if name.startswith("0.") and name != "0.bias")
    both = dict(played.model.named_parameters()), played.update
    (g, v), (of_g, of_v) = ([each[name].detach() for name in names] for each in both)
    length = v.norm(dim=1, keepdim=True)
    whole = length / g * of_v + of_g * v / length
    rows = whole / played.update["0.bias"][:, None]
    assert all((rows - record).abs().amax(1).nan_to_num(1.0).min() < 0.5 / 255 for record in inputs)


@pytest.mark.parametrize(("by", "epsilon"), [("Adam", 1e-3), ("AdamW", 1e-8)])
def test_one_step_of_adam_is_computed_back(by: str, epsilon: float) -> None:
    """A server that knows epsilon computes the gradient, which gives records away."""
    played = trained(by=getattr(torch.optim, by), eps=epsilon, lr=0.01)
    assert (played.least(), set(played.differs), played.kind) == (True, {"steps"}, "gradient")
    observation, truth = view(played)
    assert next(spans(observation, "membership")).found is not None
    levels = attack("fidel", observation, truth, 60).levels
    assert all(level >= (READ if epsilon == 1e-3 else RECOGNISABLE) for level in levels)


@pytest.mark.parametrize(
    "kind", ["volumes", "bytes", "standardised", "labels", "closure", "frozen later", "checkpoint"]
)
def test_ordinary_clients_are_replayed(kind: str) -> None:
    (inputs, targets), network = data(), wide()
    shape = {"volumes": (1, 5, 2, 2), "bytes": (1, 5, 4)}.get(kind, (20,))
    inputs = inputs.reshape(-1, *shape)
    inputs = (255 * inputs).to(torch.uint8) if kind == "bytes" else inputs

    def scores(own: nn.Module, x: Tensor, labels: Tensor | None = None) -> Any:
        x = x.float().flatten(1) / (255 if kind == "bytes" else 1)
        x = (x - 0.4) / 0.3 if kind == "standardised" else x
        if kind == "checkpoint":
            parts: Any = own.network
            z = parts[2](checkpoint(parts[:2], x.requires_grad_(), use_reentrant=True))
        else:
            z = own.network(x)  # type: ignore[operator]
        return z if labels is None else (cross_entropy(z, labels), z)

    own = Own(scores, network=network)

    def train() -> None:
        optimiser = torch.optim.SGD(own.parameters(), lr=0.1)

        def loss() -> Tensor:
            optimiser.zero_grad()
            scored = own(inputs, labels=targets)[0] if kind == "labels" else None
            found = cross_entropy(own(inputs), targets) if scored is None else scored
            found.backward()
            return found

        if kind == "frozen later":
            network[0].requires_grad_(False)  # type: ignore[index]
            loss()
            optimiser.step()
            network[0].requires_grad_(True)  # type: ignore[index]
        optimiser.step(loss) if kind == "closure" else (loss(), optimiser.step())

    played = round_in(watched(train)[1])
    assert (played.loss, set(played.differs)) == (PLAIN, {"unchecked"} if kind == "closure" else set())
    assert played.least() == (kind == "closure")
    seen = view(played)
    assert attack("fidel", *seen, 60).count(READ) == RECORDS
    assert kind in ("closure", "frozen later", "checkpoint") or look(*seen).predicted["fidel"] == RECORDS
