"""The defaults of NVFlare and Flower: what each sends, by the formulas of their own code."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtr, ndtri

from leakbench import defences
from leakbench.base.errors import UserError
from leakbench.defences import Update, protected
from leakbench.defences.certification import area, certificate, gamma, participations
from leakbench.defences.nvflare_svt import spent
from leakbench.metrics.scoring.certified import bounds

SENT = {"weight": torch.randn(40, 50, generator=torch.Generator().manual_seed(1)), "bias": torch.zeros(40)}
UPDATE = {
    name: 0.02 * torch.randn(2, *value.shape, generator=torch.Generator().manual_seed(2))
    for name, value in SENT.items()
}


def sent(module: str, parameters: dict[str, Any], update: Update = UPDATE, samples: int = 32) -> Update:
    defence = defences.build(module, parameters)
    return protected(defence, update, {}, torch.Generator().manual_seed(0), SENT, samples)


def flat(update: Update) -> torch.Tensor:
    return torch.cat([value.flatten(1) for value in update.values()], 1)


@pytest.mark.parametrize("steps", [1, 4])
def test_the_percentile_filter_drops_the_smallest_and_bounds_the_rest(steps: int) -> None:
    before, after = flat(UPDATE), flat(sent("nvflare-percentile", {"steps": steps}))
    for own, found in zip(before, after, strict=True):
        cutoff = own.abs().sort().values[round(0.1 * (len(own) - 1))]
        assert ((found == 0) == (own.abs() < cutoff)).all()
        assert float((found == 0).double().mean()) == pytest.approx(0.1, abs=1e-3)
        kept = own.abs() >= cutoff
        torch.testing.assert_close(found[kept], own.clamp(-0.01 * steps, 0.01 * steps)[kept])
    assert float(after.abs().max()) == pytest.approx(min(0.01 * steps, float(before.abs().max())))


def test_a_tensor_of_one_number_passes_the_filters() -> None:
    update = {**UPDATE, "scale": torch.tensor([7.0, 1e-9])}
    for module in ("nvflare-percentile", "nvflare-svt"):
        assert sent(module, {}, update)["scale"].tolist() == update["scale"].tolist()


def test_the_noise_of_the_study_is_a_share_of_a_percentile() -> None:
    update = {"weight": torch.cat([torch.zeros(1, 50_000), torch.arange(1.0, 50_001.0)[None]], 1)}
    found = sent("nvflare-gaussian", {"sigma0": 0.2}, update)["weight"] - update["weight"]
    # The zeros do not count: the 95th percentile is 47,500. Four deviations of the estimate.
    assert float(found.std()) == pytest.approx(0.2 * 47_500, rel=4 / math.sqrt(2 * 100_000))
    assert not sent("nvflare-gaussian", {}, {"weight": torch.zeros(1, 9)})["weight"].any()


def test_the_sparse_vector_sends_few_coordinates_with_the_noise_of_its_budget() -> None:
    update = {"weight": torch.full((1, 100_000), 3.0)}
    found = sent("nvflare-svt", {}, update)["weight"][0]
    chosen = found[found != 0]
    # 10,000 are drawn with replacement out of all that are above the threshold, half of the coordinates.
    assert len(chosen) == pytest.approx(50_000 * (1 - math.exp(-0.2)), rel=0.05)
    assert float(chosen.mean()) == pytest.approx(1e-5, abs=4 * 2e-4 * math.sqrt(2 / len(chosen)))
    # The magnitude of a Laplacian variable has its scale as mean and as deviation.
    assert float((chosen - 1e-5).abs().mean()) == pytest.approx(2e-4, rel=4 / math.sqrt(len(chosen)))
    quiet = sent("nvflare-svt", {"noise_var": 1e9, "steps": 5}, update)["weight"][0]
    torch.testing.assert_close(quiet[quiet != 0], torch.full((int((quiet != 0).sum()),), 5e-5))
    # The ledger counts every coordinate that is sent: FLIP reports 70,333 for a network of 7,033,000 weights.
    assert spent(7_033_000) == pytest.approx(70_330, rel=1e-4)


def test_local_dp_bounds_the_update_and_adds_the_stated_noise() -> None:
    settings = {"clipping_norm": 0.5, "sensitivity": 1e-9}
    found = flat(sent("flower-local-dp", settings))
    assert found.norm(dim=1).tolist() == pytest.approx([0.5, 0.5], rel=1e-4)
    assert torch.cosine_similarity(found, flat(UPDATE)).min() > 0.9999
    short = sent("flower-local-dp", {**settings, "clipping_norm": 100.0})
    torch.testing.assert_close(flat(short), flat(UPDATE), atol=1e-6, rtol=0)
    noise = flat(sent("flower-local-dp", {"clipping_norm": 100.0, "sensitivity": 1.0})) - flat(UPDATE)
    deviation = math.sqrt(2 * math.log(1.25e5)) / 10
    assert float(noise.std()) == pytest.approx(deviation, rel=4 / math.sqrt(2 * noise.numel()))


@pytest.mark.parametrize("sensitivity", [1e-4, 0.1, 2.0])
def test_the_stated_epsilon_is_held_to_the_bound_of_the_norm(sensitivity: float) -> None:
    found = defences.build("flower-local-dp", {"sensitivity": sensitivity}).certificate(1, "model")
    assert found is not None
    assert found["stated"] == 10.0
    deviation = sensitivity * math.sqrt(2 * math.log(1.25e5)) / 10
    mu = 2.0 / deviation
    # FLIP's settings certify nothing: the largest difference is 41,000 deviations long.
    assert found["epsilon"] == pytest.approx(mu * mu / 2 + 4.265 * mu, rel=0.05)
    if sensitivity == 1e-4:
        assert found["epsilon"] > 8e8
        assert gamma(found, 0.001) == 1.0
        return
    if sensitivity == 2.0:
        assert delta_of(found["epsilon"] - 1e-6, mu) > 1e-5 > delta_of(found["epsilon"] + 1e-6, mu)
        # Even then it is more than the 10 that are stated: the formula of the noise holds below 1.
        assert found["epsilon"] == pytest.approx(10.394, abs=1e-3)


def test_the_exact_epsilon_is_that_of_the_accountant() -> None:
    from leakbench.defences.certification import of_normal_noise

    for noise, steps in ((1.0, 1), (0.3, 1), (2.0, 9)):
        other = certificate(noise, 1.0, steps, 1e-5)["epsilon"]
        assert other - 0.03 < of_normal_noise(noise, steps, 1e-5)["epsilon"] <= other
    assert of_normal_noise(1e9, 1, 0.1)["epsilon"] == 0.0


@pytest.mark.parametrize("samples", [32, 500])
def test_rounded_weights_are_right_on_average_and_off_by_the_step(samples: int) -> None:
    many = {name: value[:1].expand(300, *value.shape[1:]) for name, value in UPDATE.items()}
    found = flat(sent("flower-secagg-plus", {"alone": True}, many, samples)) - flat(many)
    factor = round(samples / 1000 * 2**22) / 2**22
    step = 16 / 2**22 / factor
    levels = (
        flat(sent("flower-secagg-plus", {"alone": True}, many, samples))
        + flat({n: v[None] for n, v in SENT.items()})
    ) / step
    assert float((levels - levels.round()).abs().max()) < 0.05
    assert float(found.abs().max()) < 1.3 * step
    assert float(found.mean()) == pytest.approx(0, abs=4 * step / math.sqrt(6 * found.numel()) + step / 50)
    assert 0.3 < float(found.std()) / step < 0.5
    large = {"weight": torch.full((1, 40, 50), 1e6), "bias": torch.zeros(1, 40)}
    got = sent("flower-secagg-plus", {"alone": True}, large, samples)["weight"][0] + SENT["weight"]
    torch.testing.assert_close(got, torch.full((40, 50), 8 / factor), rtol=1e-4, atol=0)


def test_the_server_sees_the_sum_weighted_by_rounded_shares() -> None:
    view = defences.build("flower-secagg-plus", {}).view([32, 96])
    assert view.groups == [[0, 1]]
    assert view.shares is not None
    np.testing.assert_allclose(view.shares.numpy(), [[0.25, 0.75]], atol=1e-6)
    with pytest.raises(UserError, match="nobody to hide among"):
        defences.build("flower-secagg-plus", {}).view([32])
    assert defences.build("flower-secagg-plus", {"alone": True}).view([32]).shares is None


@pytest.mark.parametrize("module", ["flower-local-dp", "flower-secagg-plus"])
def test_a_defence_of_weights_refuses_gradients(module: str) -> None:
    with pytest.raises(UserError, match="set update: model"):
        protected(defences.build(module, {}), UPDATE, {}, torch.Generator())


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
