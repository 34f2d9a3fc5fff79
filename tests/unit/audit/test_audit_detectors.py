"""Detectors in the audit: which sound, and which cannot look and why."""

import html
from dataclasses import replace

import numpy as np
import pytest
import torch
from clients import client_of, faces, mlp, observed
from torch import nn

from leakbench.audit.audit import of_client
from leakbench.audit.detectors import Alarm, Watched, alarms
from leakbench.federation import detectors, servers
from leakbench.federation.servers import Held
from leakbench.observations.observation import Observation

# Seconds: no detector comes near its share, however busy the machine is.
BUDGET = 600


def part(network: nn.Module, records: int = 16, first: int = 0) -> Watched:
    return observed(network, faces(records, first))


def named(found: list[Alarm]) -> dict[str, Alarm]:
    return {alarm.detector: alarm for alarm in found}


def written(network: nn.Module) -> nn.Module:
    """Let Robbing the Fed write a network's weights."""
    held = Held((1, 25, 25), 16, torch.Generator().manual_seed(0), faces(200)[0][:, None])
    servers.build("robbing-the-fed", {})(network, held)
    return network


def test_an_honest_model_raises_no_alarm_and_robbing_the_fed_does() -> None:
    # A hyperbolic tangent closes no neuron, so not one record comes out of an honest gradient.
    honest = nn.Sequential(nn.Flatten(), nn.Linear(625, 40), nn.Tanh(), nn.Linear(40, 2))
    found = named(alarms([part(honest)], BUDGET))
    assert sorted(found) == detectors.names()
    assert not any(alarm.sounds for alarm in found.values())
    assert found["dynamics"].far is None
    assert found["dynamics"].why_not == "fewer than 5 earlier rounds are known"
    assert all(alarm.far is not None and not alarm.why_not for n, alarm in found.items() if n != "dynamics")
    found = named(alarms([part(written(mlp(400, 60)))], BUDGET))
    assert {name for name, alarm in found.items() if alarm.sounds} >= {"rows_alike", "isolation"}
    assert found["rows_alike"].far == pytest.approx(1 / detectors.rows_alike.ALARM)
    # An honest wide network gives records away and shows no sign of its server.
    found = named(alarms([part(mlp(400, 60))], BUDGET))
    assert {name for name, alarm in found.items() if alarm.sounds} == {"isolation"}
    # Weights that are no numbers sound without a number.
    observation, _ = part(mlp(40))
    broken = replace(observation, weights={n: v + np.float32(np.nan) for n, v in observation.weights.items()})
    rows = named(alarms([(broken, None)], BUDGET))["rows_alike"]
    assert (rows.far, rows.sounds) == (None, True)


def test_a_detector_that_cannot_look_is_left_out_with_its_reason() -> None:
    no_dense = nn.Sequential(nn.Unflatten(1, (1, 25)), nn.Conv2d(1, 2, 25), nn.Flatten())
    found = named(alarms([part(no_dense)], BUDGET))
    assert found["isolation"].why_not == "no dense layer is seen to read a flattened record"
    assert found["d_snr"].far is not None
    seen, truth = part(mlp(400, 60))
    found = named(alarms([(replace(seen, local=seen.local | {"loss": "another"}), truth)], BUDGET))
    assert found["isolation"].why_not == found["d_snr"].why_not == "the loss is not the mean cross-entropy"
    assert found["rows_alike"].line() == "quiet, 0 of its alarm"
    # A layer that gives the records of a batch one common statistic.
    norm = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(625), nn.Linear(625, 40), nn.ReLU(), nn.Linear(40, 2))
    assert "batch norm" in named(alarms([part(norm)], BUDGET))["d_snr"].why_not


def test_a_detector_ends_with_its_share_of_the_budget() -> None:
    found = named(alarms([part(mlp(400, 60))], 0.02))
    assert "not finished in its share of the budget" in found["isolation"].why_not
    assert found["isolation"].far is None
    spent = alarms([part(mlp())], 0.0)
    assert {alarm.why_not for alarm in spent} == {"not run: the budget was spent"}


def rounds(change: float) -> list[Watched]:
    """Return what two clients sent in seven rounds, whose last update the server made `change` times as
    large by the weights that it sent."""
    network, found = mlp(400), list[Watched]()
    for number in range(7):
        for node in range(2):
            observation, _ = part(network, 4, 8 * number + 4 * node)
            scale = np.float32(change if number == 6 else 1)
            updates = {name: scale * value for name, value in observation.updates.items()}
            found.append((replace(observation, updates=updates), None))
    return found


@pytest.mark.parametrize(("change", "sounds"), [(1.0, False), (1e4, True)])
def test_of_several_rounds_updates_are_compared_with_earlier_ones(change: float, sounds: bool) -> None:
    parts = rounds(change)
    found = named(alarms(parts, BUDGET, clients=2))
    assert found["dynamics"].sounds == sounds
    assert found["dynamics"].far is not None
    for name in ("d_snr", "few_open", "isolation"):
        assert found[name].why_not == "the client's records are unknown"
    # Each client is compared with itself, and five rounds have none to be compared with.
    assert named(alarms(parts[:10], BUDGET, clients=2))["dynamics"].far is None
    # A client that sends back what it was sent has not trained, which is no leap.
    idle: Observation = replace(parts[-1][0], updates={n: 0 * v for n, v in parts[-1][0].updates.items()})
    assert not named(alarms([*parts[:12], (idle, None)], BUDGET, clients=2))["dynamics"].sounds


def test_models_that_were_written_for_one_client_are_seen_in_a_sum() -> None:
    observation, _ = part(mlp(400, 60))
    model = observation.model()
    bad = written(mlp(400, 60)).state_dict()
    each = {
        f"network.{name}": np.stack([model.state_dict()[f"network.{name}"].numpy(), value.numpy()])[None]
        for name, value in bad.items()
    }
    found = named(alarms([(replace(observation, each=each), None)], BUDGET))
    assert found["rows_alike"].sounds
    assert not named(alarms([(observation, None)], BUDGET))["rows_alike"].sounds


def test_the_audit_tells_and_shows_every_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbench.audit.audit.catalogue", dict)
    lines: list[str] = []
    own = client_of(written(mlp(400, 60)), 32, records=16)
    audit = of_client(own, BUDGET, lines.append)
    assert any(line.startswith("detector: rows alike: sounds, 100 of its alarm") for line in lines)
    value = audit.to_dict()
    assert [each["detector"] for each in value["alarms"]] == detectors.names()
    shown = html.unescape(audit.page())
    assert all(detectors.looks_for(name) in shown for name in ("few_open", "isolation", "one_sided_rows"))
    assert "fewer than 5 earlier rounds are known</td>" in shown
