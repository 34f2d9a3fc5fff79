"""What an attacker who knows a defence does about it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from leakbench import attacks, defences
from leakbench.attacks.adaptive import adaptation, adapted
from leakbench.attacks.adaptive.quantise import step_of
from leakbench.attacks.adaptive.withhold import arrived
from leakbench.base.parts import part
from leakbench.catalogue.signature import part_names
from leakbench.observations.adaptation import Adaptation
from leakbench.observations.observation import Observation
from leakbench.observations.threat_model import ThreatModel

RNG = torch.Generator().manual_seed(0)
TRUE = {"a": torch.randn(1, 30, 20, generator=RNG), "b": torch.randn(1, 9, generator=RNG)}
SETTINGS: dict[str, dict[str, float]] = {
    "clip": {"norm": 0.5}, "prune": {"share": 0.2}, "withhold": {"share": 0.5}, "quantise": {"bits": 3},
    "sign": {}, "gaussian": {"scale": 0.3}, "laplacian": {"scale": 0.3}, "none": {}, "key-lock": {},
    "dp-sgd": {"noise_multiplier": 1.0, "clip": 0.5}, "outpost": {},
    "soteria": {}, "censor": {}, "dgp": {}, "ats": {},
    "nvflare-percentile": {}, "nvflare-svt": {}, "nvflare-gaussian": {}, "flower-local-dp": {},
}  # fmt: skip


def known(name: str) -> Adaptation:
    found: Adaptation = part("adaptive", name)()
    return found


def sent(name: str, rounds: int = 1) -> dict[str, torch.Tensor]:
    """Return the true gradient as a client under a defence sends it, `rounds` times."""
    again = {key: value.repeat(rounds, *[1] * (value.dim() - 1)) for key, value in TRUE.items()}
    built = defences.build(name, SETTINGS[name])
    return defences.protected(built, again, {}, torch.Generator().manual_seed(1))


def apart(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return float(torch.cat([(a[name] - b[name]).flatten() for name in a]).norm())


def test_every_defence_is_thought_of() -> None:
    files = set(part_names("defences"))
    # Those leave others something to see, and an attacker who knows of it another defence's name:
    # fused-known.
    in_aggregation = {
        name
        for name in files - set(SETTINGS)
        if defences.build(name, {}).view([1, 1]).seen is not defences.unchanged
    }
    files -= in_aggregation
    assert files == set(SETTINGS)
    for name in files - {"none"}:
        assert known(name) != Adaptation(), name
    assert adaptation(replace(seen("none", 1), knows=ThreatModel())) == Adaptation()


@pytest.mark.parametrize("name", ["clip", "prune", "withhold", "quantise", "dgp", "sign"])
def test_the_true_gradient_meets_what_was_sent(name: str) -> None:
    observed = sent(name)
    mechanism = known(name).mechanism
    assert apart(TRUE, observed) > 0.1
    # Signs are softened, so that they have a slope.
    most = 0.6 * apart(TRUE, observed) if name == "sign" else 1e-4
    assert apart(mechanism(observed)(TRUE, {}), observed) < most
    other = {key: torch.randn(value.shape, generator=RNG) for key, value in TRUE.items()}
    assert apart(mechanism(observed)(other, {}), observed) > 0.05


@pytest.mark.parametrize("name", ["clip", "prune", "withhold", "quantise", "sign", "dgp"])
def test_a_mechanism_has_the_slope_of_its_differences(name: str) -> None:
    observed = {key: value.double() for key, value in sent(name).items()}
    of = known(name).mechanism(observed)
    # The distance to a third gradient: no mechanism leaves it flat, and its slope along a line is not zero.
    rng = torch.Generator().manual_seed(3)
    third, way = ({k: torch.randn(v.shape, generator=rng).double() for k, v in TRUE.items()} for _ in "ab")

    def distance(dummy: dict[str, torch.Tensor]) -> torch.Tensor:
        apart = [(value - third[key]).square().sum() for key, value in of(dummy, {}).items()]
        return torch.stack(apart).sum()

    dummy = {key: (3 * value.double()).requires_grad_() for key, value in TRUE.items()}
    slopes = torch.autograd.grad(distance(dummy), list(dummy.values()))
    assert all(slope.isfinite().all() for slope in slopes)
    along = sum(float((slope * way[key]).sum()) for key, slope in zip(dummy, slopes, strict=True))
    ahead, behind = (
        float(distance({k: (v + step * way[k]).detach() for k, v in dummy.items()})) for step in (1e-6, -1e-6)
    )
    assert abs(along) > 1e-3
    assert along == pytest.approx((ahead - behind) / 2e-6, rel=1e-4)


def test_the_step_is_read_off_the_levels_that_occur() -> None:
    levels = torch.tensor([[0.0, 0.5, 2.0, 2.0, -1.0]])
    assert step_of(levels).item() == pytest.approx(0.5)
    assert step_of(torch.zeros(1, 3)).item() == 0


def seen(name: str, rounds: int, fixed: bool = True, moves: int = 0) -> Observation:
    updates = {key: value[:, None].numpy() for key, value in sent(name, rounds).items()}
    knows = ThreatModel(defence=name, local_set_repeats=fixed)
    return Observation({}, {}, updates, np.arange(rounds) * moves, [1], "gradient", knows)


def test_the_defences_chance_averages_out() -> None:
    for name in ("gaussian", "laplacian"):
        once, often = (adapted(seen(name, rounds)) for rounds in (1, 64))
        errors = [
            apart({k: torch.from_numpy(v[:, 0]) for k, v in o.updates.items()}, TRUE) for o in (once, often)
        ]
        assert errors[1] < errors[0] / 5, name
        # One reconstruction, not as many as rounds: these would share the pooled noise.
        assert often.rounds == 1
    gathered = adapted(seen("withhold", 20)).updates
    for key, value in TRUE.items():
        assert np.allclose(gathered[key][0, 0], value[0], atol=1e-5)


def test_of_laplacian_noise_the_median_is_nearer_than_the_mean() -> None:
    noisy = defences.build("laplacian", {"scale": 1.0}).update({"a": torch.zeros(51, 4000)}, RNG)["a"]
    join = known("laplacian").pooled
    assert join(noisy).square().mean() < 0.75 * noisy.mean(0).square().mean()


def test_rounds_that_differ_are_not_pooled() -> None:
    for observation in (seen("gaussian", 4, fixed=False), seen("gaussian", 4, moves=1), seen("clip", 4)):
        assert adapted(observation).updates is observation.updates


def test_only_an_attack_that_adapts_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    def attack(observation: Observation, rng: torch.Generator) -> None:
        found.append(observation.rounds)

    monkeypatch.setattr(attacks, "part", lambda room, name: attack)
    for adaptive in (False, True):
        attacks.run({"module": "made", "adaptive": adaptive}, seen("gaussian", 4), RNG)
    assert found == [4, 1]


def test_a_shut_neuron_and_a_black_pixel_are_known_to_be_zero() -> None:
    observed = torch.tensor([[[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 4.0]]])
    expected = [[True, True, True, False], [True] * 4, [True, True, False, True]]
    assert arrived(observed).tolist() == [expected]
    assert arrived(observed[:, 0]).tolist() == [[True, False, True, False]]


@pytest.mark.parametrize(
    ("name", "observed", "found", "expected"),
    [
        # As large as the smallest that was sent; outside the range of what was sent; half a step away.
        ("prune", [3.0, 0.0, 0.0, -2.0], [1.0, 1.5, -2.5, 1.0], [1.0, 0.0, -0.5, 1.0]),
        ("dgp", [3.0, 0.0, 0.0, 0.0, -2.0], [1.0, 1.5, -2.25, 2.875, 9.0], [1.0, 0.0, -0.25, 0.125, 9.0]),
        ("dgp", [3.0, 0.0, 0.0, 0.0, -2.0], [0.0, 7.0, 0.0, -7.0, 0.0], [0.0] * 5),
        ("quantise", [0.0, 0.5, 2.0, -1.0], [0.25, 1.0, 1.5, -1.0], [0.0, 0.75, 1.75, -1.0]),
    ],
)
def test_a_coordinate_may_be_all_that_the_defence_leaves_open(
    name: str, observed: list[float], found: list[float], expected: list[float]
) -> None:
    of = known(name).mechanism({"a": torch.tensor([observed])})
    assert of({"a": torch.tensor([found])}, {})["a"].tolist() == [expected]


def test_over_rounds_dgp_gives_everything_but_the_largest_away() -> None:
    """The sum of a coordinate up to the round that sent it last is that many times the gradient."""
    join = known("dgp").pooled
    rounds = sent("dgp", 40)
    for name, value in TRUE.items():
        found, came = join(rounds[name]), (rounds[name] != 0).any(0)
        torch.testing.assert_close(found[came], value[0][came])
        largest = value[0].abs().flatten().topk(round(0.05 * value[0].numel()) or 1).indices
        assert not came.flatten()[largest].any() or value[0].numel() < 10
        assert float(came.double().mean()) > 0.8 > float((rounds[name][0] != 0).double().mean())
