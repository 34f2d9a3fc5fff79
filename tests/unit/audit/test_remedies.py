"""What would help: each change does what it says, and the same attacks run again after it."""

import pytest
import torch
from clients import client_of, faces, mlp
from torch import nn

from leakbench.audit.attacks import attack
from leakbench.audit.audit import of_client
from leakbench.audit.client import client, view
from leakbench.audit.findings import READ, RECOGNISABLE
from leakbench.audit.remedies import grouped, largest, noisy, remedies


def test_changes_do_what_they_say() -> None:
    update = {"a": torch.randn(1000), "b": torch.randn(50, 20)}
    kept = largest(update, 0.1)
    assert sum(int((value != 0).sum()) for value in kept.values()) == pytest.approx(200, abs=1)
    noise = torch.cat([(noisy(update, 0.5)[name] - update[name]).flatten() for name in update])
    assert float(noise.std()) == pytest.approx(0.5, rel=0.1)
    norms = [m for m in grouped(nn.Sequential(nn.BatchNorm2d(4))).modules() if isinstance(m, nn.GroupNorm)]
    assert [norm.num_channels for norm in norms] == [4]


def test_what_helps_is_ranked_with_its_price() -> None:
    own = client((mlp(400), nn.CrossEntropyLoss(), faces(16), faces(64, 100)), 4, local_steps=1)
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
    bias = by["no bias in the first layer"]
    assert (bias.why_not, bias.before, bias.read) == ("", 4, 0)
    assert by["top 1% of coordinates"].accuracy is not None
    assert not any(each.unfinished for each in by.values() if each.what.startswith("noise"))
    measured = [each for each in found.remedies if not each.why_not]
    assert measured == sorted(measured, key=lambda each: each.rank())
    assert found.remedies[: len(measured)] == measured


def test_a_search_that_found_the_leak_runs_again_after_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbench.audit.remedies._of_clients", lambda own: ())
    monkeypatch.setattr("leakbench.audit.remedies.KEPT", ())
    monkeypatch.setattr("leakbench.audit.remedies.NOISE", (1.0,))
    monkeypatch.setattr("leakbench.audit.attacks.FEWEST", 30)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(512, 4))
    slope = torch.linspace(0, 1, 8)
    own = client_of(network, ((slope[:, None] * slope)[None, None], torch.tensor([1])))
    played = own.play()
    found = attack("invg", *view(played), 600, longest=30)
    assert (found.count(READ), found.count(RECOGNISABLE), found.iterations) == (0, 1, 30)
    # The same update is searched with the same seeds, so that a defence that does nothing changes nothing.
    by = {each.what: each for each in remedies(own, played, [found], 600, lambda update: update)}
    idle, noise = by["your defence"], by["noise of 1 of the update's norm"]
    assert (idle.seen_before, idle.seen, idle.hidden, idle.unfinished) == (1, 1, 0, False)
    assert (noise.seen, noise.hidden, noise.unfinished) == (0, 1, False)
    assert list(by) == ["noise of 1 of the update's norm", "your defence"]
    # Without the time for a search as long as a search must be, nothing is claimed of any change.
    (nothing,) = remedies(own, played, [found], 1e-3)
    assert nothing.what == "every change"
    assert "InvG did not run again" in nothing.why_not


DEFENCES = {
    "ZeroDivisionError": lambda update: 1 / 0,
    "returns other tensors": lambda update: {},
    "other tensors than": lambda update: dict.fromkeys(update, 0),
    "holds NaN or Inf": lambda update: {name: value * torch.nan for name, value in update.items()},
}


@pytest.mark.parametrize("words", DEFENCES)
def test_a_defence_that_fails_is_named_and_takes_no_other_result(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakbench.audit.remedies._of_clients", lambda own: ())
    own = client_of(mlp(400), 8, records=4)
    played = own.play()
    found = attack("peel", *view(played), 60)
    by = {each.what: each for each in remedies(own, played, [found], 60, DEFENCES[words])}
    assert words in by["your defence"].why_not
    assert not by["top 10% of coordinates"].why_not
