"""Networks as people bring them: what is odd on one loses its own row, and what is data is handed on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import Own, client_of, convolutional, faces, frozen, mlp, observed, pictures, round_of
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy, mse_loss, nll_loss
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint
from torchvision.models import resnet18

from leakbench.audit.attacks import attack
from leakbench.audit.audit import of_client
from leakbench.audit.client import client, facts, view
from leakbench.audit.detectors import alarms
from leakbench.audit.findings import LABELLED, READ
from leakbench.audit.handed import Traced, hand_over, taken
from leakbench.audit.inference import inferences
from leakbench.audit.network import fixed, reason
from leakbench.audit.predictions import look
from leakbench.audit.replay import round_in
from leakbench.audit.watch import watched
from leakbench.base.errors import Unfit, UserError
from leakbench.observations.observation import LOSS


def rows(records: int = 4) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.rand(records, 12), torch.arange(records) % 3


def twice() -> nn.Module:
    layer = nn.Linear(12, 12)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(12, 3))


def normed() -> nn.Module:
    return nn.Sequential(weight_norm(nn.Linear(12, 20)), nn.ReLU(), nn.Linear(20, 3))


def unused() -> nn.Module:
    return Own(lambda net, x: net.a(x), a=nn.Linear(12, 3), b=nn.Linear(7, 2))


def without_gradient(net: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        hidden = net.a(x.flatten(1))
    return net.b(hidden.relu()) if hasattr(net, "b") else hidden  # type: ignore[no-any-return]


def blind() -> nn.Module:
    return Own(without_gradient, a=nn.Linear(12, 20), b=nn.Linear(20, 3))


def picky() -> nn.Module:
    """Return a network that fails on numbers outside of 0 to 1, which attacks try."""
    return Own(
        lambda net, x: net.b(net.a((x * 10).long()).mean(1)), a=nn.Embedding(11, 16), b=nn.Linear(16, 3)
    )


def compiled() -> nn.Module:
    made: nn.Module = torch.compile(nn.Sequential(nn.Linear(12, 60), nn.ReLU(), nn.Linear(60, 3)))  # type: ignore[assignment]
    return made


@pytest.mark.parametrize("make", [twice, normed, unused, blind, picky, compiled])
def test_an_ordinary_module_is_audited_to_the_page(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    # Attacks that read all records end early, however long they may take.
    found = of_client(client_of(make(), rows()), 60 if make is compiled else 1, lambda line: None)
    assert [each.attack for each in found.found][:3] == ["fidel", "peel", "spear"]
    assert found.headline() in found.page()
    assert all("\n" not in each.why_not for each in [*found.found, *found.alarms])
    if make is compiled:
        assert found.exposed() == 4


def test_a_detector_and_a_stage_that_fail_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("network.1.weight")

    seen = observed(compiled(), rows())
    monkeypatch.setattr("leakbench.federation.detectors.isolation.fidel", fails)
    monkeypatch.setattr("leakbench.audit.inference.labels", fails)
    monkeypatch.setattr("leakbench.attacks.run", fails)
    by = {each.detector: each for each in alarms([seen], 600)}
    why = "it needs the update of 1.weight, which is not sent under this name"
    assert (by["isolation"].why_not, by["rows_alike"].why_not) == (why, "")
    assert next((each.line, each.ran) for each in inferences(*seen)) == (why, False)
    assert attack("fidel", *seen, 60).why_not == why
    found = attack("invg", *observed(picky(), rows()), 60)
    assert found.why_not == "fails on this network (IndexError)"
    assert (found.levels, found.out_of_time) == ([0] * 4, False)


def test_no_reason_advises_what_an_audit_has_no_option_for() -> None:
    labels = Unfit("attack: the victim has no dense layer (set labels: oracle)")
    assert reason(labels) == "the victim has no dense layer"
    assert reason(Unfit("not run: it needs others (--batch)")) == "not run: it needs others (--batch)"
    assert reason(ValueError("two\nlines")) == "fails on this network (ValueError: two lines)"
    assert reason(KeyError("k")) == "fails on this network (KeyError: 'k')"
    # A detector leaves a network with a shared layer as it was for the next.
    torch.manual_seed(0)
    by = {each.detector: each for each in alarms([observed(twice(), rows())], 600)}
    assert by["d_snr"].why_not == by["isolation"].why_not == ""


def test_dropout_is_read_off_and_what_peeling_proves_behind_it_was_read() -> None:
    observation, truth = observed(mlp(400, dropout=0.5), 6)
    assert observation.dropout
    assert "peel" not in look(observation, truth).predicted
    peeled = attack("peel", observation, truth, 60)
    assert peeled.proven == peeled.count(READ)
    assert attack("fidel", observation, truth, 60).count(READ) > 0
    # In evaluation mode nothing is dropped.
    assert not observed(mlp(400, dropout=0.5).eval(), 6)[0].dropout


@pytest.mark.parametrize("kind", ["train", "eval", "mixed"])
def test_each_batch_norm_goes_by_the_mode_that_the_client_trains_in(kind: str) -> None:
    network, batch = convolutional().train(kind == "train"), pictures()
    if kind == "mixed":
        norms = nn.BatchNorm1d(30).eval(), nn.BatchNorm1d(9)
        network = nn.Sequential(nn.Linear(12, 30), norms[0], nn.ReLU(), nn.Linear(30, 9), norms[1])
        batch = rows(8)
    played = round_of(network, batch)
    observation, truth = view(played)
    assert observation.mode == ("eval" if kind == "eval" else "train")
    by = {"train": "the batch at hand", "eval": "sent statistics", "mixed": "mixed: sent statistics in 1"}
    assert facts(played, observation)["batch norm by"] == by[kind]
    assert facts(played, observation)["buffers sent"] == (6 if kind == "mixed" else 3)
    # The attacker's model causes the client's very update.
    model = observation.model()
    named = dict(model.named_parameters())
    slopes = torch.autograd.grad(cross_entropy(model(truth.images), truth.labels), list(named.values()))
    for name, slope in zip(named, slopes, strict=True):
        sent = observation.update(name)[0, 0]
        assert (slope - sent).norm() <= 1e-4 * sent.norm() + 1e-5, name


def test_a_residual_network_is_looked_at_and_attacked() -> None:
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    played = round_of(torchvision.models.resnet18(num_classes=10), pictures())
    observation, truth = view(played)
    assert facts(played, observation)["parameters"] == 11_181_642
    seen = look(observation, truth)
    assert not seen.pixels
    assert "20 layers" in seen.facts["batch norm"]
    assert attack("peel", observation, truth, 60).why_not


@pytest.mark.parametrize("steps", [1, 2])
def test_what_is_not_trained_is_not_sent(steps: int) -> None:
    network = frozen(mlp(60, 20), "1.weight", "1.bias")
    before = {name: value.clone() for name, value in network.state_dict().items()}
    own = client_of(network, steps=steps)
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


FIRST, LAST = ("1.weight", "1.bias"), ("3.weight", "3.bias")
WEIGHT = "the weight of the {} dense layer, {}, is not trained and not sent"


def test_nothing_is_read_of_a_layer_that_is_not_sent() -> None:
    assert list(round_of(unused(), rows()).update) == ["a.weight", "a.bias"]
    observation, truth = observed(frozen(mlp(400), *FIRST))
    why = WEIGHT.format("first", 1)
    assert {attack(name, observation, truth, 60).why_not for name in ("fidel", "peel", "spear")} == {why}
    (isolation,) = [each for each in alarms([(observation, truth)], 600) if each.detector == "isolation"]
    assert isolation.why_not == why.replace(", 1,", "")
    counts = next(
        each for each in inferences(*observed(frozen(mlp(40), *LAST))) if each.title == "label counts"
    )
    assert (counts.line, counts.ran) == (WEIGHT.format("last", 3), False)
    # Without the bias records are known up to their scale.
    images, labels = faces(4)
    seen = observed(frozen(mlp(400), "1.bias"), (images / images.flatten(1).amax(1)[:, None, None], labels))
    assert attack("fidel", *seen, 60).count(READ) > 0
    assert "the bias of the first dense layer, 1, is" in attack("peel", *seen, 60).why_not


@pytest.mark.parametrize("chosen", ["by its optimiser", "by requires_grad"])
def test_training_of_the_head_alone_sends_the_head(chosen: str) -> None:
    network, (inputs, targets) = mlp(30, inputs=12, classes=3), rows()
    if chosen == "by requires_grad":
        frozen(network, *FIRST)

    def train() -> None:
        own = network[3] if chosen == "by its optimiser" else network  # type: ignore[index]
        optimiser = torch.optim.SGD(own.parameters(), lr=0.05)
        cross_entropy(network(inputs), targets).backward()
        optimiser.step()

    played = round_in(watched(train)[1])
    assert tuple(played.update) == LAST
    assert played.plain_loss
    assert set(view(played)[0].updates) == {f"network.{name}" for name in LAST}


@pytest.mark.parametrize("make", [lambda: nn.LSTM(5, 4), lambda: nn.MultiheadAttention(4, 2)])
def test_a_layer_with_fixed_weights_computes_what_it_did(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    layer, inputs = make(), torch.rand(3, 2, 5)
    given = (inputs,) if isinstance(layer, nn.LSTM) else (inputs[..., :4],) * 3
    before = layer(*given)[0]
    fixed(layer, ())
    assert not list(layer.parameters())
    assert torch.equal(layer(*given)[0], before)
    for value in layer.buffers():
        value.zero_()
    assert not torch.equal(layer(*given)[0], before)


def test_activations_without_a_second_derivative_are_searched() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(12, 9), nn.Hardswish(), nn.Linear(9, 9), nn.Hardsigmoid(), nn.Linear(9, 3)
    )
    inputs, targets = rows(8)
    model = observed(network, (inputs, targets))[0].model()
    pixels = (3 * inputs[:, :, None, None]).requires_grad_()
    assert torch.allclose(model(pixels), network(pixels.flatten(1)), atol=1e-5)
    slopes = torch.autograd.grad(model(pixels).square().sum(), list(model.parameters()), create_graph=True)
    assert torch.autograd.grad(slopes[0].square().sum(), pixels)[0].any()


def by_features(own: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    return (h := own.body(x)), own.head(h)


# What a network of a body and two heads returns, and its loss.
RETURNS: dict[str, tuple[Callable[..., Any], Callable[[Any, Tensor], Tensor]]] = {
    "features": (by_features, lambda out, y: cross_entropy(out[1], y)),
    "two heads": (lambda own, x: {"class": own.head(h := own.body(x)), "age": own.other(h)},
                  lambda out, y: cross_entropy(out["class"], y) + mse_loss(out["age"][:, 0], y.float())),
    "log-probabilities": (lambda own, x: own.head(own.body(x)).log_softmax(1), nll_loss),
    "checkpoint": (lambda own, x: checkpoint(own.head, own.body(x), use_reentrant=True), cross_entropy),
}  # fmt: skip


@pytest.mark.parametrize("kind", RETURNS)
def test_what_else_a_network_returns_or_computes_hides_nothing(kind: str) -> None:
    """The first output alone, or the first head's loss, would leave out what the gradient gives away."""
    (output, loss), body, head = RETURNS[kind], mlp(300)[:3], nn.Linear(300, 2)  # type: ignore[index]
    played = round_of(Own(output, body=body, head=head, other=nn.Linear(300, 1)), loss=loss)
    found, two = attack("peel", *view(played), 60), kind == "two heads"
    assert (played.differs, found.proven, found.count(READ)) == ({}, 4, 4)
    assert (played.loss, played.least(), found.count(LABELLED)) == (
        LOSS + " and mse loss of 2 outputs" * two, two, 4 * (not two),
    )  # fmt: skip


class Block(nn.Module):
    """A module of the client's own, within one of torch's and within another of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.norm(self.conv(x))) * self.scale + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.last = nn.Sequential(Block(), Block()), nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(x)
        scores: Tensor = self.last(x.view(x.size(0), -1)[:, :48])
        return scores


def batch(rows: int = 4) -> tuple[Tensor, Tensor]:
    return torch.rand(8, 3, rows, rows), torch.arange(8)


@pytest.mark.parametrize(
    "net", [lambda: mlp(9, inputs=48, classes=10), Net, lambda: resnet18(num_classes=10)]
)
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(label_smoothing=0.1), functional.cross_entropy])
def test_a_handed_over_client_is_the_same(net: Callable[[], nn.Module], loss: Any, tmp_path: Path) -> None:
    own = client((net(), loss, batch(), batch()), 6, 2, 0.5)
    assert hand_over(own, tmp_path / "x")
    found = taken(tmp_path / "x")
    assert list(found.model.state_dict()) == list(own.model.state_dict())
    assert (found.records, found.local_steps, found.lr) == (6, 2, 0.5)
    assert found.validation is not None
    update, again = own.play().update, found.play().update
    assert update.keys() == again.keys()
    assert all(torch.equal(update[name], again[name]) for name in update)


class Drops(nn.Linear):
    """A layer that drops some of its scores while it trains."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(super().forward(x.flatten(1)), training=self.training)


class Looks(nn.Linear):
    """A layer that looks at what it is asked."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(1) if float(x.sum()) > 0 else 0 * x)


@pytest.mark.parametrize(("kind", "data"), [(Drops, True), (Looks, False)])
def test_a_network_that_looks_at_its_inputs_is_no_data(kind: Any, data: bool, tmp_path: Path) -> None:
    """One that depends on its mode alone has calls for each."""
    own = client((kind(48, 10), nn.CrossEntropyLoss(), batch()))
    assert hand_over(own, tmp_path / "x") is (tmp_path / "x").exists() is data
    if data:
        again = taken(tmp_path / "x").play().update
        assert all(torch.equal(value, again[name]) for name, value in own.play().update.items())


def test_code_of_the_clients_own_stays(tmp_path: Path) -> None:
    hooked = mlp(9, inputs=48, classes=10)
    hooked.register_forward_hook(lambda *given: None)
    for made in (
        (mlp(9, inputs=48, classes=10), lambda scores, y: functional.cross_entropy(scores, y), batch()),
        (hooked, nn.CrossEntropyLoss(), batch()),
    ):
        assert not hand_over(client(made), tmp_path / "x")


@pytest.mark.parametrize("calls", [
    [("x", "placeholder", "x", (), {}), ("a", "call_function", "getattr", ({"node": "x"}, "__class__"), {})],
    [("x", "placeholder", "x", (), {}), ("a", "call_method", "__reduce__", ({"node": "x"},), {})],
    [("a", "call_function", "os.system", ("x",), {})],
])  # fmt: skip
def test_calls_that_no_tracing_gives_are_refused(calls: Any) -> None:
    with pytest.raises((KeyError, AttributeError)):
        Traced(nn.Linear(2, 2), {True: calls})(torch.ones(1, 2))


def test_a_file_with_code_is_refused(tmp_path: Path) -> None:
    torch.save(([Block(), nn.CrossEntropyLoss(), batch()], 1, 1, 0.1), tmp_path / "x")
    with pytest.raises(UserError, match=r"test_networks\.Block is the client's own code"):
        taken(tmp_path / "x")
