"""What differential privacy certifies, held to closed forms and to the best possible attack."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from leakbench.base.errors import UserError
from leakbench.defences.certification import area, certificate, gamma, participations
from leakbench.metrics.scoring.certified import bounds


def delta_of(epsilon: float, mu: float) -> float:
    """Return δ of μ-GDP at ε (Dong, Roth and Su, corollary 2.13)."""
    return float(ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2))


@pytest.mark.parametrize(("noise", "steps"), [(1.0, 1), (0.3, 1), (2.0, 9)])
def test_epsilon_is_that_of_the_gaussian_mechanism(noise: float, steps: int) -> None:
    found = certificate(noise, 1.0, steps, 1e-5)
    mu = math.sqrt(steps) / noise
    assert delta_of(found["epsilon"] - 0.03, mu) > 1e-5 > delta_of(found["epsilon"], mu)
    assert found["epsilon"] <= found["epsilon_rdp"]
    assert found["curve"] == []


def test_gamma_of_one_step_at_full_rate_is_the_closed_form() -> None:
    for noise, rounded in ((1.0, 0.018), (0.3, 0.596)):
        found = certificate(noise, 1.0, 1, 1e-5)
        assert gamma(found, 0.001) == pytest.approx(float(ndtr(ndtri(0.001) + 1 / noise)))
        assert gamma(found, 0.001) == pytest.approx(rounded, abs=5e-4)
    assert gamma(found, 0.0) == 0.0
    assert gamma(found, 1.0) == 1.0
    names = ["exact", "identified", "tpr_at_fpr_0"]
    told = bounds(found | {"among": 1000}, names, 64, 10, 999)
    assert told == {"exact": gamma(found, 0.064), "identified": 1.0, "tpr_at_fpr_0": gamma(found, 0.001)}
    assert area(found) == pytest.approx(float(ndtr(1 / 0.3 / math.sqrt(2))), abs=2e-3)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_accountants_curve_bounds_one_sampled_step_and_hardly_more(rate: float) -> None:
    found = certificate(0.7, rate, 1, 1e-5)
    for blind in (1e-4, 1e-3, 0.05, 0.5):
        exact = (1 - rate) * blind + rate * float(ndtr(ndtri(blind) + 1 / 0.7))
        assert gamma(found, blind) == pytest.approx(exact)
        by_curve = min(math.exp(epsilon) * blind + delta for epsilon, delta in found["curve"])
        assert exact < by_curve < 2.5 * exact


@pytest.mark.parametrize(("noise", "rate", "steps"), [(0.8, 0.3, 4), (0.5, 0.02, 30), (1.5, 1.0, 4)])
def test_the_best_attack_on_sampled_steps_comes_near_gamma(noise: float, rate: float, steps: int) -> None:
    """By Neyman and Pearson the likelihood ratio is the best; what it sees of each step is one number."""
    rng = np.random.default_rng(0)
    trials = 200_000

    def ratio(shift: np.ndarray) -> np.ndarray:
        seen = shift / noise + rng.standard_normal((trials, steps))
        each = 1 - rate + rate * np.exp(seen / noise - 0.5 / noise**2)
        return np.log(each).sum(1)

    inside = ratio(rng.random((trials, steps)) < rate)
    outside = ratio(np.zeros((trials, steps), bool))
    found = certificate(noise, rate, steps, 1e-5)
    for blind in (0.001, 0.01, 0.1):
        power = float((inside > np.quantile(outside, 1 - blind)).mean())
        error = 3 * math.sqrt(blind / trials) / blind * power + 3e-3
        assert power <= gamma(found, blind) + error
        assert power >= 0.35 * gamma(found, blind)


def test_the_accountants_check_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from opacus.accountants import PRVAccountant

    monkeypatch.setattr(PRVAccountant, "get_epsilon", lambda self, delta, eps_error: 100.0)
    with pytest.raises(UserError, match=r"parameters: ε is 100 by one accountant and at most 4\.7"):
        certificate(1.0, 1.0, 1, 1e-5)


def test_a_sample_takes_part_once_in_each_local_epoch_and_each_round_that_holds_it() -> None:
    federation = {
        "update": "gradient", "local": {"epochs": 5}, "rounds": 6, "passes": 1, "local_set": "fresh",
    }  # fmt: skip
    model = federation | {"update": "model"}
    assert (participations(federation), participations(model)) == (1, 5)
    assert participations(federation | {"local_set": "fixed"}, 2) == 12
    for kind in ("fresh", "fixed"):
        assert participations(model | {"passes": 3, "local_set": kind}) == 15
