"""Intervals: how often they contain the true mean, what a table reports, and bounds of epsilon."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binomtest, norm
from scipy.stats import t as student

from leakbench.defences.certification import epsilon_of, of_normal_noise
from leakbench.metrics.epsilon import RATES, lower_bound, place_of_member
from leakbench.metrics.interval import interval, paired, summary, wilson
from leakbench.metrics.scoring.membership import add_epsilon


def covered(draw: Callable[[np.random.Generator], np.ndarray], mean: float, repeats: int = 500) -> float:
    """Return the share of samples whose interval contains the true mean."""
    rng = np.random.default_rng(0)
    bounds = np.array([interval(draw(rng), rng=rng) for _ in range(repeats)])
    return float(np.mean((bounds[:, 0] <= mean) & (mean <= bounds[:, 1])))


@pytest.mark.parametrize(("n", "least"), [(20, 0.92), (50, 0.93)])
def test_the_bootstrap_covers_normal_and_skewed_means(n: int, least: float) -> None:
    assert covered(lambda rng: rng.normal(3, 2, n), 3) >= least
    assert covered(lambda rng: rng.exponential(2, n), 2) >= least - 0.03


def test_the_bootstrap_is_efrons_with_students_quantile() -> None:
    """Efron's BCa interval of the mean, written out for the very resamples (Efron and Tibshirani, 14.3)."""
    values = np.random.default_rng(3).exponential(2, 40)
    n = len(values)
    means = values[np.random.default_rng(5).integers(0, n, size=(2000, n))].mean(1)
    bias = norm.ppf((means < values.mean()).mean())
    jackknife = np.array([np.delete(values, place).mean() for place in range(n)])
    away = jackknife.mean() - jackknife
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
    z = math.sqrt(n / (n - 1)) * student.ppf(0.975, n - 1)
    shares = [norm.cdf(bias + (bias + side) / (1 - acceleration * (bias + side))) for side in (-z, z)]
    found = interval(values, rng=np.random.default_rng(5))
    assert found == pytest.approx(tuple(np.quantile(means, shares)), rel=1e-9)


@pytest.mark.parametrize("n", [3, 4, 11, 19])
def test_few_values_have_students_interval(n: int) -> None:
    values = np.random.default_rng(n).random(n)
    theory = student.interval(0.95, n - 1, values.mean(), values.std(ddof=1) / math.sqrt(n))
    assert interval(values) == pytest.approx(theory)
    assert interval(values, np.arange(n)[::-1]) == pytest.approx(theory)


@pytest.mark.parametrize(("hits", "n"), [(0, 3), (3, 3), (2, 5), (10, 10), (0, 40), (39, 40)])
def test_shares_have_wilsons_interval(hits: int, n: int) -> None:
    found = interval(np.repeat([1.0, 0.0], [hits, n - hits]))
    assert found == pytest.approx(tuple(binomtest(hits, n).proportion_ci(method="wilson")))
    assert 0 <= found[0] <= hits / n <= found[1] <= 1


def test_same_generator_same_interval() -> None:
    values, failures = np.random.default_rng(4).random(3000), np.zeros(3000, dtype=bool)
    first = interval(values, rng=np.random.default_rng(7))
    assert interval(values, rng=np.random.default_rng(8)) != first
    assert summary(values, failures) == summary(values, failures)
    found = summary(values, failures, np.random.default_rng(7))
    assert (found["ci_low"], found["ci_high"]) == first


@pytest.mark.parametrize("values", [[], [3.0], [3.0, 4.0], [1.0, math.nan, 2.0, 3.0], [0.1] * 4])
def test_too_few_missing_or_few_equal_values_have_no_interval(values: list[float]) -> None:
    assert np.isnan(interval(np.array(values))).all()
    for value, n in ((0.1, 5), (0.1, 40), (np.inf, 5)):
        assert interval(np.full(n, value)) == (value, value)


@pytest.mark.parametrize("n", [6, 30])
def test_infinite_values_leave_the_bound_of_the_capped_ones(n: int) -> None:
    values = np.random.default_rng(n).normal(20, 3, n)
    top = values.max()
    capped = np.append(values, [top, top])
    assert interval(np.append(values, [np.inf, np.inf])) == (interval(capped)[0], np.inf)
    assert interval(-np.append(values, [np.inf, np.inf])) == (-np.inf, interval(-capped)[1])
    assert np.isnan(interval(np.append(values, [np.inf, -np.inf]))).all()
    assert np.isnan(interval(np.array([1.0, 2.0, np.inf]), np.array([0, 0, 1]))).all()


def test_summary_by_hand() -> None:
    values = np.array([4.0, 1.0, 2.0, 3.0, 10.0])
    found = summary(values, np.array([False, False, False, False, True]))
    assert found["mean"] == 4.0
    assert (found["q25"], found["median"], found["q75"]) == (2.0, 3.0, 4.0)
    assert (found["n"], found["failure_rate"]) == (5, 0.2)
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((-0.39, 8.39), abs=0.01)


def test_a_failed_trial_that_has_a_score_counts_in_the_mean() -> None:
    values, failures = np.array([20.0, 10.0]), np.array([False, True])
    assert summary(values, failures)["mean"] == 15.0
    unscored = summary(np.array([20.0, np.nan]), failures)
    assert (unscored["mean"], unscored["n"], unscored["failure_rate"]) == (20.0, 1, 0.5)


def test_an_infinite_psnr_is_not_capped() -> None:
    found = summary(np.array([10.0, 20.0, 30.0, 40.0, np.inf]), np.zeros(5, dtype=bool))
    assert found["mean"] == np.inf
    assert (found["q25"], found["median"], found["q75"]) == (20.0, 30.0, 40.0)
    assert np.isfinite(found["ci_low"])
    assert found["ci_high"] == np.inf
    half = summary(np.array([10.0, np.inf, np.inf, np.inf]), np.zeros(4, dtype=bool))
    assert (half["q25"], half["median"], half["q75"]) == (np.inf, np.inf, np.inf)


def test_nothing_scored() -> None:
    found = summary(np.full(4, np.nan), np.ones(4, dtype=bool))
    assert (found["n"], found["failure_rate"]) == (0, 1.0)
    assert all(np.isnan(found[key]) for key in ("mean", "median", "q25", "q75", "ci_low", "ci_high"))
    assert np.isnan(summary(np.array([]), np.array([], dtype=bool))["failure_rate"])
    with pytest.raises(ValueError, match="4 values but 3 failures"):
        summary(np.zeros(4), np.zeros(3, dtype=bool))


def test_the_interval_of_unequal_clusters_is_centred_on_the_mean() -> None:
    rng = np.random.default_rng(6)
    # Large clusters score 1, small ones 0: the mean of cluster means would be about 0.5 and miss 10/11.
    sizes = np.tile([10, 1], 100)
    clusters = np.repeat(np.arange(sizes.size), sizes)
    values = np.repeat(np.tile([1.0, 0.0], 100), sizes) + rng.normal(0, 1e-3, sizes.sum())
    found = summary(values, np.zeros(values.size, dtype=bool), clusters=clusters)
    assert found["mean"] == pytest.approx(10 / 11, abs=1e-3)
    assert found["ci_low"] < found["mean"] < found["ci_high"]
    # The linearised standard error of a ratio of sums: residuals of each cluster over its expected size.
    sums, mean = np.bincount(clusters, values), found["mean"]
    error = np.sqrt(np.sum((sums - mean * sizes) ** 2)) / sizes.sum()
    assert found["ci_high"] - found["ci_low"] == pytest.approx(2 * norm.ppf(0.975) * error, rel=0.1)
    assert (found["ci_low"] + found["ci_high"]) / 2 == pytest.approx(mean, abs=0.5 * error)


def test_trials_that_share_a_fate_are_one_trial() -> None:
    fates = np.random.default_rng(8).random(30)
    values, clusters = np.repeat(fates, 50), np.repeat(np.arange(30), 50)
    assert interval(values, clusters) == pytest.approx(interval(fates), abs=1e-12)
    assert interval(values[:500], clusters[:500]) == pytest.approx(interval(fates[:10]), abs=1e-12)
    hits = (fates > 0.4).astype(float)
    assert interval(np.repeat(hits, 50), clusters) == pytest.approx(interval(hits))


def test_a_share_of_unequal_clusters_counts_fewer_trials() -> None:
    # One update of 96 images and four of one: hardly more than one trial.
    clusters = np.repeat(np.arange(5), [96, 1, 1, 1, 1])
    values = (clusters > 0).astype(float)
    assert interval(values, clusters) == wilson(0.04, 100**2 / (96**2 + 4))
    assert interval(values, clusters)[1] > 0.75


def test_names_of_clusters_do_not_matter_and_two_have_no_interval() -> None:
    values = np.random.default_rng(9).random(6)
    names = np.array(["0/10", "0/10", "0/9", "0/9", "1/9", "1/9"])
    assert interval(values, names) == interval(values, np.array([0, 0, 1, 1, 2, 2]))
    assert np.isnan(interval(values, np.repeat([0, 1], 3))).all()


def test_a_trial_without_a_score_leaves_its_cluster() -> None:
    values, clusters = np.array([1.0, np.nan, 3.0, 5.0, np.nan, 9.0]), np.array([0, 0, 1, 1, 2, 3])
    failures = np.isnan(values)
    found = summary(values, failures, clusters=clusters)
    assert (found["n"], found["failure_rate"]) == (4, 1 / 3)
    assert (found["ci_low"], found["ci_high"]) == interval(values[~failures], clusters[~failures])


def scores(values: np.ndarray) -> dict[int, float]:
    return dict(enumerate(map(float, values)))


def test_pairs_see_what_independent_samples_hide() -> None:
    rng = np.random.default_rng(2)
    images = rng.normal(25, 6, 10)
    a, b = images + 1 + rng.normal(0, 0.3, 10), images + rng.normal(0, 0.3, 10)
    own = scores(np.arange(10))
    value, low, high, m = paired(scores(a), scores(b), own)
    assert (value, low, high, m) == pytest.approx((np.mean(a - b), *interval(a - b), 10))
    assert low > 0
    assert interval(a)[0] < interval(b)[1]
    assert paired(scores(b), scores(a), own) == pytest.approx((-value, -high, -low, 10))
    fates = {key: key // 5 for key in range(10)}
    assert paired(scores(a), scores(b), fates)[3] == 2
    assert math.isnan(paired(scores(a), scores(b), fates)[1])


def test_pairs_are_of_the_same_trials() -> None:
    a, own = scores(np.arange(6) ** 2), scores(np.arange(7))
    *numbers, m = paired(a, scores(np.arange(7)), own)
    assert m == 0
    assert np.isnan(numbers).all()
    rest = {key: a[key] for key in range(5)}
    zeros, fewer = (dict.fromkeys(range(n), 0.5) for n in (6, 5))
    assert paired(a | {5: math.nan}, zeros, own) == paired(rest, fewer, own)
    assert paired({}, {}, {})[3] == 0
    # Two infinite scores are no difference.
    a, b = scores(np.array([np.inf, 30.0, 31.0, 29.0])), scores(np.array([np.inf, 20.0, 22.0, 18.0]))
    value, low, high, _ = paired(a, b, own)
    assert low < value < high
    assert value == pytest.approx(7.5)


def test_pairs_that_disagree_by_chance_are_not_ordered() -> None:
    own = scores(np.arange(20))
    b = np.zeros(20)
    for more, ordered in ((0, False), (3, False), (4, False), (5, True), (20, True)):
        a = np.arange(20) < more
        value, low, high, m = paired(scores(a), scores(b), own)
        assert (value, m) == (more / 20, 20)
        assert (low > 0) == ordered
        assert -1 <= low <= high <= 1


def test_equal_shares_are_told_apart_in_one_of_twenty() -> None:
    rng = np.random.default_rng(5)
    for n in (5, 10, 30):
        own = scores(np.arange(n))
        wrong = 0
        for _ in range(600):
            a, b = ((rng.random(n) < 0.3).astype(float) for _ in range(2))
            _, low, high, _ = paired(scores(a), scores(b), own)
            wrong += low > 0 or high < 0
        assert wrong / 600 <= 0.06


def test_the_deviation_is_the_populations_and_quartiles_are_numpys() -> None:
    values = np.random.default_rng(10).random(12)
    found = summary(values, np.zeros(12, dtype=bool))
    assert found["std"] == pytest.approx(np.sqrt(np.square(values - values.mean()).sum() / 12))
    assert [found[q] for q in ("q25", "median", "q75")] == pytest.approx(
        np.quantile(values, [0.25, 0.5, 0.75])
    )
    # Thesis Table 3.13 prints 0.0750 for one label wrong in ten batches of four.
    right, batches = np.repeat([1.0] * 9 + [0.75], 4), np.repeat(np.arange(10), 4)
    assert summary(right, np.zeros(40, dtype=bool), clusters=batches)["std"] == pytest.approx(0.075)
    # One trial, one cluster and infinity have none.
    assert np.isnan(summary(np.array([1.0]), np.zeros(1, dtype=bool))["std"])
    assert np.isnan(summary(np.array([1.0, 2.0]), np.zeros(2, dtype=bool), clusters=np.zeros(2))["std"])
    assert np.isnan(summary(np.array([1.0, np.inf]), np.zeros(2, dtype=bool))["std"])


OTHERS = 999


def places(mu: float, count: int, seed: int = 0, others: int = OTHERS) -> np.ndarray:
    """Return the places of a member whose score is μ deviations below those of others, under normal noise."""
    rng = np.random.default_rng(seed)
    members = np.zeros(others + 1, bool)
    members[0] = True
    found = []
    for _ in range(count):
        scores = rng.normal(size=others + 1)
        scores[0] -= mu
        found.append(place_of_member(scores, members, members))
    return np.array(found)


def test_a_place_is_the_rank_among_those_that_are_no_members() -> None:
    members = np.array([False, True, True, False, False])
    scores = np.array([3.0, 2.0, 0.0, 1.0, 4.0])
    # The first member, behind one of three others.
    assert place_of_member(scores, members, members) == 2 / 4
    scores[3] = 2.0
    assert place_of_member(scores, members, members) == 2 / 4
    assert math.isnan(place_of_member(scores, ~members & False, members))
    assert math.isnan(place_of_member(scores, ~members | True, members))


@pytest.mark.parametrize("mu", [0.5, 2.0, 4.0])
def test_the_bound_comes_near_and_stays_below(mu: float) -> None:
    certified = of_normal_noise(1 / mu, 1, 1e-5)
    found = lower_bound(places(mu, 2000), OTHERS, certified)
    assert 0.5 * certified["epsilon"] < found < certified["epsilon"]
    # Without knowledge of the mechanism the bound is weaker, and holds too.
    assert 0 < lower_bound(places(mu, 2000), OTHERS) < found


def test_the_bound_exceeds_the_truth_as_seldom_as_it_says() -> None:
    certified = of_normal_noise(1 / 1.0, 1, 1e-5)
    above = [
        lower_bound(places(1.0, 100, seed, 99), 99, certified) > certified["epsilon"] for seed in range(400)
    ]
    # 95 % confidence; four deviations.
    assert np.mean(above) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 400)


def test_nothing_is_proven_by_chance_or_by_few_trials() -> None:
    assert lower_bound(places(0.0, 1000), OTHERS) == 0.0
    assert lower_bound(np.array([1e-3, 1e-3]), OTHERS) < 6
    assert math.isnan(lower_bound(np.array([math.nan]), OTHERS))
    assert math.isnan(lower_bound(np.array([0.5]), 0))


def test_twenty_of_twenty_prove_what_clopper_and_pearson_allow() -> None:
    found = lower_bound(np.full(20, 1 / (OTHERS + 1)), OTHERS)
    rates = len(RATES) + 1
    assert found == pytest.approx(math.log((beta.ppf(0.05 / rates, 20, 1) - 1e-5) * (OTHERS + 1)))
    sharper = lower_bound(np.full(20, 1e-3), OTHERS, of_normal_noise(1.0, 1, 1e-5))
    assert sharper > found
    assert epsilon_of(0.0, 1e-5) == 0.0


def test_rows_of_one_baseline_share_the_bound() -> None:
    rows = pd.DataFrame(
        {
            "baseline": ["", "", "random-gradient", "random-gradient"], "checkpoint": 0, "local_samples": 1,
            "epsilon_low": [1e-3, 1e-3, 0.4, 0.9],
        }
    )  # fmt: skip
    found = add_epsilon(rows, OTHERS + 1, None, False)["epsilon_low"]
    assert found[0] == found[1] == lower_bound(np.full(2, 1e-3), OTHERS)
    assert found[2] == found[3] == 0.0
    # A sample that is left out would not have the rank of any other, if labels are given.
    assert add_epsilon(rows, OTHERS + 1, None, True)["epsilon_low"].isna().all()
