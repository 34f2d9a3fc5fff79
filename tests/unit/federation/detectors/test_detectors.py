"""Which detectors sound on which models."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from leakbench.base.errors import Unfit
from leakbench.federation import detectors, servers
from leakbench.federation.detectors import Received, reading, readings
from leakbench.federation.detectors.d_snr import d_snr
from leakbench.federation.detectors.dynamics import ALARM, FEWEST, dynamics, farthest
from leakbench.federation.detectors.isolation import isolation
from leakbench.federation.detectors.rows_alike import rows_alike
from leakbench.federation.servers import Held
from leakbench.metrics import METRICS
from leakbench.networks import victims

SHAPE, PLACE, BATCH = (8, 8, 1), (1, 8, 8), 32


def images(count: int = BATCH, seed: int = 0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, 1, 1, generator=rng) * torch.rand(count, *PLACE, generator=rng)


def received(server: str = "", module: str = "mlp", batch: int = BATCH, **parameters: object) -> Received:
    torch.manual_seed(0)
    model = victims.build(module, SHAPE, 5, parameters).eval()
    if server:
        rng = torch.Generator().manual_seed(1)
        servers.build(server, {})(model, Held(PLACE, batch, rng, images(2000, 2)))
    return Received(model, images(batch), torch.arange(batch) % 5)


def sounding(model: Received) -> set[str]:
    return {found.name for found in readings(model) if found.sounds}


@pytest.mark.parametrize(
    ("server", "detector"),
    [("robbing_the_fed", "rows_alike"), ("trap_weights", "one_sided_rows"), ("soliton", "few_open")],
)
def test_a_malicious_server_is_found_by_the_detector_that_was_made_for_it(server: str, detector: str) -> None:
    found = sounding(received(server, hidden=[300, 20]))
    assert detector in found
    # Trap weights isolate samples whose brightness differs from place to place, which this noise does not.
    assert ("isolation" in found) == (server != "trap_weights")


def test_an_honest_network_that_gives_nothing_away_raises_no_alarm() -> None:
    assert sounding(received(hidden=[40, 20], normalise="mnist", activation="tanh")) == set()
    assert sounding(received(module="lenet_dlg")) == set()
    # One that gives samples away is told from its own gradient. Of one sample, every open neuron holds it.
    assert isolation(received(batch=1, hidden=[40, 20])) == 1
    assert isolation(received(batch=4, hidden=[400, 20])) >= 1
    # Weights that are no numbers are suspicious.
    broken = received(hidden=[40, 20])
    with torch.no_grad():
        next(broken.model.parameters()).fill_(torch.nan)
    assert sounding(broken) == set(detectors.names())
    assert {f"alarm_{name}" for name in detectors.names()} == {n for n in METRICS if n.startswith("alarm_")}
    said = "Rows of weights that all lean to one side, as trap weights do."
    assert detectors.looks_for("one_sided_rows") == said


@pytest.mark.parametrize("name", ["few_open", "isolation", "one_sided_rows", "rows_alike"])
def test_a_batch_norm_that_goes_by_its_batch_is_asked_for_two_samples(name: str) -> None:
    """As of a network that the client trains: of one sample such a layer has no statistics."""
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 20), nn.ReLU(), nn.Linear(20, 5))
    found = reading(name, Received(model.train(), images(), torch.arange(BATCH) % 5))
    assert 0 <= found.far < float("inf")


def test_two_equal_rows_in_three_are_a_third_of_the_pairs() -> None:
    layer = nn.Linear(2, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    model = nn.Sequential(
        nn.Flatten(), nn.Unflatten(1, (32, 2)), layer, nn.Flatten(), nn.Linear(96, 5, bias=False)
    )
    nn.init.orthogonal_(model[4].weight)
    assert rows_alike(Received(model, images(), torch.zeros(BATCH, dtype=torch.long))) == pytest.approx(1 / 3)


def test_one_sample_that_outweighs_all_others_is_seen_in_the_ratio() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2, bias=False))
    nn.init.zeros_(model[1].weight)
    # With equal logits a sample's gradient is half its pixels for each class, so its length is that of the
    # sample.
    x = torch.zeros(3, *PLACE)
    x[0, 0, 0, 0], x[1, 0, 0, 1], x[2, 0, 0, 2] = 1.0, 0.2, 0.05
    assert d_snr(Received(model, x, torch.zeros(3, dtype=torch.long))) == pytest.approx(4.0, rel=1e-5)
    with pytest.raises(Unfit, match="fewer than 2 records"):
        d_snr(Received(model, x[:1], torch.zeros(1, dtype=torch.long)))


def test_what_a_client_remembers_is_its_loss_before_and_after_a_step_and_the_length_of_its_gradient() -> None:
    got = replace(received(hidden=[40, 20]), lr=0.1)
    model = deepcopy(got.model)
    loss = cross_entropy(model(got.images), got.labels)
    before = float(loss.detach())
    loss.backward()
    length = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    torch.optim.SGD(model.parameters(), 0.1).step()
    after = float(cross_entropy(model(got.images), got.labels).detach())
    expected = {"loss": before, "gradient": float(length), "loss after a step": after}
    assert got.now == pytest.approx(expected, rel=1e-5)
    assert after < before


def test_the_farthest_number_is_told_in_deviations_of_logarithms() -> None:
    earlier = [{"loss": 1.0, "gradient": math.exp(k)} for k in (-1, -1, 0, 1, 1)]
    # The logarithms -1, -1, 0, 1 and 1 have a mean of 0 and a deviation of 1.
    assert farthest({"loss": 1.0, "gradient": math.exp(-3)}, earlier) == pytest.approx(3)
    assert farthest({"loss": math.inf, "gradient": 1.0}, earlier) == math.inf
    assert farthest({"loss": 1.0, "gradient": 0.0}, earlier) > 60


def test_a_server_that_begins_to_cheat_leaps_away_from_the_rounds_before() -> None:
    def rounds(model: nn.Module, seeds: range) -> list[Received]:
        return [Received(model, images(seed=seed), torch.arange(BATCH) % 5, 0.1) for seed in seeds]

    honest, cheat = received(hidden=[300, 20]).model, received("trap_weights", hidden=[300, 20]).model
    memory = [each.now for each in rounds(honest, range(10))]
    found = {
        whose: [dynamics(replace(each, earlier=memory)) for each in rounds(model, range(10, 15))]
        for whose, model in {"honest": honest, "cheat": cheat}.items()
    }
    assert max(found["honest"]) < ALARM < min(found["cheat"])
    # Without a memory nothing is strange.
    with pytest.raises(Unfit, match="fewer than 5 earlier rounds"):
        dynamics(replace(rounds(cheat, range(1))[0], earlier=memory[: FEWEST - 1]))
    # Who does not know the batch compares what was sent.
    unknown = [
        replace(each, images=each.images[:0], labels=each.labels[:0], sent=each.gradient)
        for model in (honest, cheat)
        for each in rounds(model, range(10))
    ]
    earlier = [each.now for each in unknown[:9]]
    assert [list(each) for each in earlier] == [["gradient"]] * 9
    assert (
        dynamics(replace(unknown[9], earlier=earlier))
        < ALARM
        < dynamics(replace(unknown[10], earlier=earlier))
    )


def test_a_detector_that_cannot_look_says_why() -> None:
    """As for those who audit what others sent, or train with another loss."""
    own = received(hidden=[40, 20])

    def reasons(of: Received) -> dict[str, str]:
        return {found.name: found.why_not for found in readings(of) if found.why_not}

    fresh = {"dynamics": "fewer than 5 earlier rounds are known"}
    assert reasons(own) == fresh
    for model in (own, replace(own, transport={"lr": 0.1})):
        assert "no settings of a rounded sum" in reading("transport", model).why_not
    unknown = dict.fromkeys(("d_snr", "few_open", "isolation"), "the client's records are unknown")
    assert reasons(replace(own, images=own.images[:0], labels=own.labels[:0])) == fresh | unknown
    other = dict.fromkeys(("d_snr", "isolation"), "the loss is not the mean cross-entropy")
    assert reasons(replace(own, plain_loss=False)) == fresh | other
    flattened = nn.Sequential(nn.Conv2d(1, 5, 8), nn.Flatten())
    flat = "no dense layer is seen to read a flattened record"
    assert reasons(Received(flattened, images(), torch.arange(BATCH) % 5)) == fresh | dict.fromkeys(
        ("few_open", "isolation", "one_sided_rows"), flat
    ) | {"rows_alike": "no dense layer has two neurons"}


def test_a_client_finds_that_a_model_was_written_for_it_alone() -> None:
    torch.manual_seed(0)
    model = victims.build("imprinted", SHAPE, 5, {"bins": 100, "clients": 2}).eval()
    held = Held(PLACE, 16, torch.Generator(), images(2000, 2), [8, 8])
    kernels = servers.build("loki", {})(model, held).each["convolution.weight"]
    model.load_state_dict({"convolution.weight": kernels[1]}, strict=False)
    got = Received(model, images(8), torch.arange(8) % 5)
    assert "rows_alike" in sounding(got)
    assert isolation(got) >= 4


DEFAULT = {"clipping_range": 8.0, "target_range": 1 << 22, "max_weight": 1000.0}


@pytest.mark.parametrize(
    ("settings", "sounds"),
    [
        ({}, False),
        # Flower's example provides for 9,000 samples.
        ({"max_weight": 9000.0}, False),
        # Everything that makes the default finer, and what cuts off or spoils weights.
        ({"max_weight": 999.0}, True),
        ({"target_range": (1 << 22) + 1}, True),
        ({"clipping_range": 7.9}, True),
        ({"max_weight": 20.0, "clipping_range": 800.0}, True),
        ({"target_range": 1 << 13}, True),
        ({"target_range": 0}, True),
        ({"max_weight": math.nan}, True),
    ],
)
def test_a_client_refuses_a_rounding_that_the_server_chose(settings: dict[str, float], sounds: bool) -> None:
    model = replace(received(hidden=[40, 20]), transport=DEFAULT | settings)
    assert reading("transport", model).sounds == sounds


def test_the_detector_knows_the_default_of_the_defence() -> None:
    from leakbench.defences.flower_secagg_plus import CLIPPING, LEVELS
    from leakbench.federation.detectors.transport import STEP

    assert STEP == 2 * CLIPPING / LEVELS * 1000
