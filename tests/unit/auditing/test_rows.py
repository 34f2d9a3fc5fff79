"""What fails on somebody's own network loses its own row, with the reason, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from clients import Own
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from leakbench.audit.alarms import alarms
from leakbench.audit.attacks import besides, catalogue, exact, matching
from leakbench.audit.audit import of_client
from leakbench.audit.client import client
from leakbench.audit.round import reason
from leakbench.audit.view import view
from leakbench.base.errors import Unfit, UserError


def batch(records: int = 4) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.rand(records, 12), torch.arange(records) % 3


def twice() -> nn.Module:
    layer = nn.Linear(12, 12)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(12, 3))


def normed() -> nn.Module:
    return nn.Sequential(weight_norm(nn.Linear(12, 20)), nn.ReLU(), nn.Linear(20, 3))


def unused() -> nn.Module:
    return Own(lambda net, x: net.a(x), a=nn.Linear(12, 3), b=nn.Linear(7, 2))


def without_gradient() -> nn.Module:
    def computes(net: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            hidden = net.a(x)
        return net.b(hidden.relu())  # type: ignore[no-any-return]

    return Own(computes, a=nn.Linear(12, 20), b=nn.Linear(20, 3))


def picky() -> nn.Module:
    """Return a network that fails on numbers outside of 0 to 1, which attacks try."""
    return Own(
        lambda net, x: net.b(net.a((x * 10).long()).mean(1)), a=nn.Embedding(11, 16), b=nn.Linear(16, 3)
    )


def compiled() -> nn.Module:
    made: nn.Module = torch.compile(nn.Sequential(nn.Linear(12, 60), nn.ReLU(), nn.Linear(60, 3)))  # type: ignore[assignment]
    return made


ODD = (twice, normed, unused, without_gradient, picky, compiled)


@pytest.mark.parametrize("make", ODD)
def test_an_ordinary_module_is_audited_to_the_page(make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    found = of_client(client((make(), nn.CrossEntropyLoss(), batch()), local_steps=1), 1, lambda line: None)
    assert [each.attack for each in found.found][:3] == ["fidel", "peel", "spear"]
    assert found.headline() in found.page()
    assert all("\n" not in each.why_not for each in [*found.found, *found.alarms])
    if make is compiled:
        assert found.exposed() == 4


def test_an_attack_that_fails_says_why_and_the_next_one_runs() -> None:
    played = client((picky(), nn.CrossEntropyLoss(), batch()), local_steps=1).play()
    observation, truth = view(played)
    found = matching("invg", catalogue()["invg"], observation, truth, 60)
    assert found.why_not.startswith("fails on this network (IndexError: index out of range")
    assert found.levels == [0] * 4
    assert not found.out_of_time


def test_a_detector_and_a_stage_that_fail_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("network.1.weight")

    seen = view(client((compiled(), nn.CrossEntropyLoss(), batch()), local_steps=1).play())
    monkeypatch.setattr("leakbench.federation.detectors.isolation.fidel", fails)
    monkeypatch.setattr("leakbench.audit.attacks.labels", fails)
    monkeypatch.setattr("leakbench.attacks.run", fails)
    by = {each.detector: each for each in alarms([seen], 600)}
    why = "it needs the update of 1.weight, which is not sent under this name"
    assert by["isolation"].why_not == why
    assert not by["rows_alike"].why_not
    assert next((each.line, each.ran) for each in besides(*seen)) == (why, False)
    assert exact("fidel", catalogue()["fidel"], *seen, 60).why_not == why


def test_a_detector_leaves_a_network_with_a_shared_layer_as_it_was_for_the_next() -> None:
    torch.manual_seed(0)
    seen = view(client((twice(), nn.CrossEntropyLoss(), batch()), local_steps=1).play())
    by = {each.detector: each for each in alarms([seen], 600)}
    assert by["d_snr"].why_not == by["isolation"].why_not == ""


def test_a_failure_of_the_clients_own_code_is_an_error_of_its_file() -> None:
    def computes(net: Any, x: Tensor) -> Tensor:
        raise ValueError("no")

    own = client((Own(computes, a=nn.Linear(12, 3)), nn.CrossEntropyLoss(), batch()), local_steps=1)
    with pytest.raises(UserError, match=r"the model fails on the batch.*ValueError: no"):
        of_client(own, 1, lambda line: None)


def test_no_reason_advises_what_an_audit_has_no_option_for() -> None:
    assert reason(Unfit("attack: the victim has no dense layer (set labels: oracle)")) == (
        "the victim has no dense layer"
    )
    assert reason(Unfit("not run: it needs others (--batch)")) == "not run: it needs others (--batch)"
    assert reason(ValueError("two\nlines")) == "fails on this network (ValueError: two lines)"
    assert reason(KeyError("k")) == "fails on this network (KeyError: 'k')"
