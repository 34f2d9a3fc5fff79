"""Networks as people bring them: dropout, batch norm in both modes, residual networks, records of numbers."""

import sys
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import faces, mlp
from torch import nn

from leakbench import attacks
from leakbench.audit.attacks import OutOfTime, catalogue, exact, matching, within
from leakbench.audit.audit import of_client
from leakbench.audit.client import client
from leakbench.audit.found import READ, RECOGNISABLE, Found
from leakbench.audit.look import look
from leakbench.audit.remedies import grouped, largest, noisy, remedies
from leakbench.audit.view import facts, view


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(256, 10),
    )  # fmt: skip


def pictures(records: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.rand(records, 3, 8, 8), torch.randint(0, 10, (records,))


def test_dropout_is_read_off_and_what_peeling_proves_behind_it_was_read() -> None:
    played = client((mlp(400, dropout=0.5), nn.CrossEntropyLoss(), faces(6)), local_steps=1).play()
    observation, truth = view(played)
    assert observation.dropout
    assert "peel" not in look(observation, truth).predicted
    peeled = exact("peel", catalogue()["peel"], observation, truth, 60)
    assert peeled.proven == peeled.count(READ)
    assert exact("fidel", catalogue()["fidel"], observation, truth, 60).count(READ) > 0
    # In evaluation mode nothing is dropped.
    still = client((mlp(400, dropout=0.5).eval(), nn.CrossEntropyLoss(), faces(6)), local_steps=1).play()
    assert not view(still)[0].dropout


@pytest.mark.parametrize(("training", "mode"), [(True, "train"), (False, "eval")])
def test_batch_norm_goes_by_the_mode_that_the_client_trains_in(training: bool, mode: str) -> None:
    network = convolutional().train(training)
    played = client((network, nn.CrossEntropyLoss(), pictures()), local_steps=1).play()
    observation, truth = view(played)
    assert observation.mode == mode
    # The attacker's model causes the client's very update.
    model = observation.model()
    loss = nn.functional.cross_entropy(model(truth.images), truth.labels)
    for (name, _), found in zip(
        model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
    ):
        sent = observation.update(name)[0, 0]
        assert (found - sent).norm() <= 1e-4 * sent.norm() + 1e-6, name


def test_a_search_runs_beside_noise_within_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    played = client((convolutional().eval(), nn.CrossEntropyLoss(), pictures(1)), local_steps=1).play()
    observation, truth = view(played)
    about = catalogue()["invg"] | {"longest": 120}
    found = matching("invg", about, observation, truth, 300)
    assert found.trials >= 3
    assert found.iterations == 120
    assert found.interval is not None
    # A hundredth of a second: no machine finishes a hundred iterations of three trials in it.
    short = matching("invg", about, observation, truth, 0.01)
    assert short.levels == [0]
    assert "budget" in short.why_not
    # A search that its share is too short for takes what is left of the budget, and no more than it needs.
    # It may take twice the time that its first steps foretell. They foretell 33 s here, so that the search is
    # not ended where a machine stalls for a second.
    monkeypatch.setattr("leakbench.audit.attacks._cost", lambda entry, observation: (1.0, 0.1))
    whole = matching("invg", about, observation, truth, 0.01, 300)
    assert (whole.iterations, whole.trials, whole.why_not) == (100, 3, "")


def test_a_budget_that_is_spent_starts_nothing() -> None:
    """A limit of no time is not a missing limit."""
    played = client((mlp(200), nn.CrossEntropyLoss(), faces(4)), local_steps=1).play()
    entries = catalogue()
    for name, run in (("spear", exact), ("invg", matching)):
        found = run(name, entries[name], *view(played), -1.0)
        assert "budget" in found.why_not


def test_an_alarm_leaves_gradients_as_they_were() -> None:
    """It may ring while a block of torch.no_grad() begins or ends, when nothing puts the switch back."""
    with suppress(OutOfTime), within(0.05):
        torch.set_grad_enabled(False)
        time.sleep(60)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(("longer", "kept", "took"), [(300, 300, 1.0), (80, 100, 1.0), (300, 100, 50.0)])
def test_where_nothing_is_found_the_best_search_has_the_rest_of_the_budget(
    longer: int, kept: int, took: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []

    def searched(name: str, about: dict[str, Any], *_: Any) -> Found:
        asked.append((name, _[2]))
        again = len(asked) == 3
        quality = [0.2, 0.3] if name == "agic" else [0.1, 0.3]
        return Found(
            name, about["title"], "matching", "C", "", 2, [0, 0], trials=3,
            iterations=longer if again else 100, quality=quality, seconds=took,
        )  # fmt: skip

    monkeypatch.setattr("leakbench.audit.audit.matching", searched)
    own = client((convolutional().eval(), nn.CrossEntropyLoss(), pictures(2)), local_steps=1)
    lines: list[str] = []
    found = of_client(own, 60, lines.append)
    # Only if that leaves half as much again.
    assert [name for name, _ in asked] == ["invg", "agic", "agic"][: 2 if took > 40 else 3]
    # The share of what would help comes on top.
    assert all(seconds > 0.3 * 60 for _, seconds in asked[2:])
    assert [each.iterations for each in found.found[3:]] == [100, kept]
    assert any("rest of the budget" in line for line in lines) == (longer == kept)


def test_no_library_catches_the_end_of_the_time() -> None:
    with suppress(OutOfTime), within(0.05):
        with suppress(Exception):
            time.sleep(60)
        pytest.fail("the alarm was caught")


def test_an_alarm_that_python_ignores_rings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised while an object is deleted goes nowhere, and of an alarm nobody need be told."""
    ignored = []
    monkeypatch.setattr("sys.unraisablehook", lambda problem: ignored.append(problem.exc_type))
    monkeypatch.setattr("leakbench.audit.attacks.AGAIN", 0.05)

    class Slow:
        def __del__(self) -> None:
            time.sleep(60)

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    with suppress(OutOfTime), within(0.05):
        Broken()
        Slow()
        time.sleep(60)
        pytest.fail("the alarm never rang")
    assert ignored == [ValueError]


def test_an_attack_that_is_stopped_leaves_no_module_half_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_module.py").write_text("import time\n\ntime.sleep(0.3)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with suppress(OutOfTime), within(0.05):
        import_module("slow_module")
        time.sleep(60)
        pytest.fail("the alarm never rang")
    assert sys.modules.pop("slow_module").whole


def test_a_residual_network_is_looked_at_and_attacked() -> None:
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    network = torchvision.models.resnet18(num_classes=10)
    played = client((network, nn.CrossEntropyLoss(), pictures(2)), local_steps=1).play()
    observation, truth = view(played)
    assert facts(played, observation)["parameters"] == 11_181_642
    seen = look(observation, truth)
    assert not seen.pixels
    assert "20 layers" in seen.facts["batch norm"]
    assert exact("peel", catalogue()["peel"], observation, truth, 60).why_not


def test_records_of_numbers_are_read() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(10, 12) * torch.logspace(-1, 2, 12)
    network = nn.Sequential(nn.Linear(12, 400), nn.ReLU(), nn.Linear(400, 3))
    own = client((network, nn.CrossEntropyLoss(), (inputs, torch.randint(0, 3, (10,)))), None, 1)
    observation, truth = view(own.play())
    found = exact("fidel", catalogue()["fidel"], observation, truth, 60)
    assert found.count(READ) == look(observation, truth).predicted["fidel"] > 0


def test_labels_and_members_are_found() -> None:
    own = client((mlp(200), nn.CrossEntropyLoss(), faces(40)), 8, local_steps=2)
    lines: list[str] = []
    found = of_client(own, 5, lines.append)
    told = {each.title: each.line for each in found.besides}
    # Seven of these eight pictures are faces, so four of each class are right of five.
    assert told["label counts"] == "8 of 8 labels are right (5 by guessing all classes equally often)"
    assert told["membership"].startswith("8 of 8 records are recognised as members, and 0 of 32")


@pytest.mark.parametrize(
    ("rule", "bias"),
    [("counted", True), ("counted", False), ("llg", True), ("llg", False), ("zlg", True), ("ilrg", True)],
)
def test_labels_are_counted_behind_a_single_logit(rule: str, bias: bool) -> None:
    """As of the network with two scores that says the same: 0 and the logit."""
    torch.manual_seed(0)
    inputs, targets = torch.rand(12, 20), torch.tensor([1.0] * 10 + [0.0] * 2)
    one = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 1, bias=bias))
    two = nn.Sequential(deepcopy(one[0]), nn.ReLU(), nn.Linear(30, 2, bias=bias))
    two[2].load_state_dict({n: torch.cat([0 * value, value]) for n, value in one[2].state_dict().items()})
    found = []
    for network, loss in ((one, nn.BCEWithLogitsLoss()), (two, nn.CrossEntropyLoss())):
        own = inputs, targets[:, None] if network is one else targets.long()
        observation, _ = view(client((network, loss, own), local_steps=1).play())
        entry = {"module": "labels", "parameters": {}, "labels": rule}
        made = attacks.run(entry, replace(observation, labelling=rule), torch.Generator().manual_seed(0))
        assert made.labels is not None
        found.append(sorted(made.labels[0, 0].tolist()))
    assert found[0] == found[1]
    if rule == "counted" and bias:
        assert found[0] == [0, 0, *[1] * 10]


def test_changes_do_what_they_say() -> None:
    update = {"a": torch.randn(1000), "b": torch.randn(50, 20)}
    kept = largest(update, 0.1)
    assert sum(int((value != 0).sum()) for value in kept.values()) == pytest.approx(200, abs=1)
    noise = torch.cat([(noisy(update, 0.5)[name] - update[name]).flatten() for name in update])
    assert float(noise.std()) == pytest.approx(0.5, rel=0.1)
    norms = [m for m in grouped(convolutional()).modules() if isinstance(m, nn.GroupNorm)]
    assert [norm.num_channels for norm in norms] == [4]


def test_what_helps_is_ranked_with_its_price() -> None:
    inputs, targets = faces(16)
    own = client((mlp(400), nn.CrossEntropyLoss(), (inputs, targets), faces(64, 100)), 4, local_steps=1)
    found = of_client(
        own, 60, lambda line: None, defence=lambda update: update | {"1.bias": update["1.bias"] * 0}
    )
    by = {each.what: each for each in found.remedies}
    assert by["noise of 1 of the update's norm"].read == 0
    assert "0.018" in by["noise of 1 of the update's norm"].note
    assert by["batch × 2"].read > 0
    assert by["secure sum of 5 clients"].why_not
    # Without the bias's gradient Fidel knows records up to their brightness, and peeling nothing.
    assert by["your defence"].read == 0
    assert by["top 1% of coordinates"].accuracy is not None
    assert not any(each.unfinished for each in by.values() if each.what.startswith("noise"))
    measured = [each for each in found.remedies if not each.why_not]
    assert measured == sorted(measured, key=lambda each: each.rank())
    assert found.remedies[: len(measured)] == measured


def test_a_search_that_found_the_leak_runs_again_after_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbench.audit.remedies._of_clients", lambda own: ())
    monkeypatch.setattr("leakbench.audit.remedies.KEPT", ())
    monkeypatch.setattr("leakbench.audit.remedies.NOISE", (1.0,))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(512, 4))
    slope = torch.linspace(0, 1, 8)
    own = client(
        (network, nn.CrossEntropyLoss(), ((slope[:, None] * slope)[None, None], torch.tensor([1]))), 1, 1
    )
    played = own.play()
    about = catalogue()["invg"] | {"longest": 100}
    found = matching("invg", about, *view(played), 600)
    assert (found.count(READ), found.count(RECOGNISABLE), found.iterations) == (0, 1, 100)
    # The same update is searched with the same seeds, so that a defence that does nothing changes nothing.
    by = {each.what: each for each in remedies(own, played, [found], 600, lambda update: update)}
    idle, noise = by["your defence"], by["noise of 1 of the update's norm"]
    assert (idle.seen_before, idle.seen, idle.hidden, idle.unfinished) == (1, 1, 0, False)
    assert (noise.seen, noise.hidden, noise.unfinished) == (0, 1, False)
    assert list(by) == ["noise of 1 of the update's norm", "your defence"]
    # Without the time for a search as long as a search must be, nothing is claimed of any change.
    (nothing,) = remedies(own, played, [found], 0.5)
    assert nothing.what == "every change"
    assert "InvG did not run again" in nothing.why_not


def test_a_defence_that_fails_is_named_and_takes_no_other_result() -> None:
    own = client((mlp(400), nn.CrossEntropyLoss(), faces(8)), 4, local_steps=1)
    for defence, words in (
        (lambda update: 1 / 0, "ZeroDivisionError"), (lambda update: {}, "other tensors"),
        (lambda update: dict.fromkeys(update, 0), "other tensors"),
        (lambda update: {name: value * torch.nan for name, value in update.items()}, "holds NaN or Inf"),
    ):  # fmt: skip
        found = of_client(own, 30, lambda line: None, defence=defence)
        by = {each.what: each for each in found.remedies}
        assert words in by["your defence"].why_not
        assert not by["top 10% of coordinates"].why_not
