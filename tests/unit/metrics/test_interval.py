"""Bootstrap intervals against normal theory, and what a table says of infinities and failures."""

import numpy as np
import pytest
from scipy.stats import norm

from leakbench.metrics.interval import bootstrap_mean, summary


def test_a_large_sample_has_the_interval_of_normal_theory() -> None:
    values = np.random.default_rng(0).exponential(2.0, 5000)
    low, high = bootstrap_mean(values, np.random.default_rng(1), resamples=4000)
    half = norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(values.size)
    assert low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    bounds = np.array([bootstrap_mean(rng.normal(3, 1, 60), rng, resamples=400) for _ in range(400)])
    covered = np.mean((bounds[:, 0] <= 3) & (bounds[:, 1] >= 3))
    # 400 draws of 0.95 have a standard error of 0.011; the percentile bootstrap is slightly short at n = 60.
    assert 0.90 <= covered <= 0.98


def test_level_widens_the_interval() -> None:
    values = np.random.default_rng(3).random(50)
    narrow = bootstrap_mean(values, np.random.default_rng(0), level=0.5)
    wide = bootstrap_mean(values, np.random.default_rng(0), level=0.99)
    assert wide[0] < narrow[0] < values.mean() < narrow[1] < wide[1]


def test_same_generator_same_interval() -> None:
    values = np.random.default_rng(4).random(3000)
    first = bootstrap_mean(values, np.random.default_rng(7))
    assert bootstrap_mean(values, np.random.default_rng(7)) == first
    assert bootstrap_mean(values, np.random.default_rng(8)) != first
    failures = np.zeros(3000, dtype=bool)
    assert summary(values, failures) == summary(values, failures)
    assert (summary(values, failures, np.random.default_rng(7))["ci_low"], first[1]) == first


def test_one_value_has_no_interval_and_equal_values_have_a_point() -> None:
    rng = np.random.default_rng(0)
    assert np.isnan(bootstrap_mean(np.array([3.0]), rng)).all()
    assert np.isnan(bootstrap_mean(np.array([]), rng)).all()
    assert np.isnan(bootstrap_mean(np.array([1.0, np.nan]), rng)).all()
    assert bootstrap_mean(np.full(10, 0.1), rng) == (0.1, 0.1)
    assert bootstrap_mean(np.full(3, np.inf), rng) == (np.inf, np.inf)


def test_summary_by_hand() -> None:
    values = np.array([4.0, 1.0, 2.0, 3.0, 10.0])
    found = summary(values, np.array([False, False, False, False, True]))
    assert found["mean"] == 4.0
    assert (found["q25"], found["median"], found["q75"]) == (2.0, 3.0, 4.0)
    assert (found["n"], found["failure_rate"]) == (5, 0.2)
    assert 1.0 <= found["ci_low"] < 4.0 < found["ci_high"] <= 10.0


def test_quartiles_interpolate_like_numpy() -> None:
    values = np.random.default_rng(5).random(10)
    found = summary(values, np.zeros(10, dtype=bool))
    assert [found["q25"], found["median"], found["q75"]] == pytest.approx(
        np.quantile(values, [0.25, 0.5, 0.75])
    )


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
    # Large clusters score 1, small ones 0: the mean of cluster means would be about 0.5 and miss 10/11 altogether.
    sizes = np.tile([10, 1], 100)
    clusters = np.repeat(np.arange(sizes.size), sizes)
    values = np.repeat(np.tile([1.0, 0.0], 100), sizes) + rng.normal(0, 1e-3, sizes.sum())
    found = summary(values, np.zeros(values.size, dtype=bool), clusters=clusters)
    assert found["mean"] == pytest.approx(10 / 11, abs=1e-3)
    assert found["ci_low"] < found["mean"] < found["ci_high"]
    # A percentile interval is a little skewed, as the ratio is. The linearised standard error of a ratio of sums: residuals of each cluster over its expected size.
    sums, mean = np.bincount(clusters, values), found["mean"]
    error = np.sqrt(np.sum((sums - mean * sizes) ** 2)) / sizes.sum()
    assert found["ci_high"] - found["ci_low"] == pytest.approx(2 * norm.ppf(0.975) * error, rel=0.1)
    assert (found["ci_low"] + found["ci_high"]) / 2 == pytest.approx(mean, abs=0.5 * error)


def test_clusters_of_one_value_change_nothing() -> None:
    values = np.random.default_rng(7).random(40)
    alone = bootstrap_mean(values, np.random.default_rng(0), clusters=np.arange(40))
    assert alone == pytest.approx(bootstrap_mean(values, np.random.default_rng(0)), abs=1e-15)


def test_trials_that_share_a_fate_widen_the_interval() -> None:
    fates = np.random.default_rng(8).random(30)
    values, clusters = np.repeat(fates, 50), np.repeat(np.arange(30), 50)
    together = bootstrap_mean(values, np.random.default_rng(0), clusters=clusters)
    apart = bootstrap_mean(values, np.random.default_rng(0))
    assert together[1] - together[0] > 5 * (apart[1] - apart[0])
    assert together == pytest.approx(bootstrap_mean(fates, np.random.default_rng(0)), abs=1e-12)


def test_names_of_clusters_do_not_matter_and_one_cluster_has_no_interval() -> None:
    values = np.random.default_rng(9).random(6)
    names = np.array(["0/10", "0/10", "0/9", "0/9", "1/9", "1/9"])
    named = bootstrap_mean(values, np.random.default_rng(0), clusters=names)
    assert named == bootstrap_mean(values, np.random.default_rng(0), clusters=np.array([0, 0, 1, 1, 2, 2]))
    assert np.isnan(bootstrap_mean(values, np.random.default_rng(0), clusters=np.zeros(6))).all()


def test_a_trial_without_a_score_leaves_its_cluster() -> None:
    values, clusters = np.array([1.0, np.nan, 3.0, 5.0, np.nan]), np.array([0, 0, 1, 1, 2])
    failures = np.isnan(values)
    found = summary(values, failures, clusters=clusters)
    rest = summary(values[~failures], np.zeros(3, dtype=bool), clusters=clusters[~failures])
    assert (found["n"], found["failure_rate"]) == (3, 0.4)
    assert (found["mean"], found["ci_low"], found["ci_high"]) == (
        rest["mean"],
        rest["ci_low"],
        rest["ci_high"],
    )
    # Two clusters {1} and {3, 5}: every draw has mean 1, 3 or 4.
    assert (found["ci_low"], found["ci_high"]) == (1.0, 4.0)


def test_an_infinite_score_in_a_cluster_is_not_capped() -> None:
    values, clusters = np.array([1.0, np.inf, 2.0, 3.0]), np.array([0, 0, 1, 1])
    found = summary(values, np.zeros(4, dtype=bool), clusters=clusters)
    assert found["ci_high"] == np.inf
    assert found["ci_low"] == 2.5


def test_there_is_one_cluster_for_each_value() -> None:
    with pytest.raises(ValueError, match="4 values but 3 clusters"):
        summary(np.zeros(4), np.zeros(4, dtype=bool), clusters=np.zeros(3))
    with pytest.raises(ValueError, match="2 values but 3 clusters"):
        bootstrap_mean(np.array([0.0, 1.0]), np.random.default_rng(0), clusters=np.zeros(3))


def test_the_deviation_is_the_populations() -> None:
    values = np.random.default_rng(10).random(12)
    found = summary(values, np.zeros(12, dtype=bool))
    assert found["std"] == pytest.approx(np.sqrt(np.square(values - values.mean()).sum() / 12))
    # Thesis Table 3.13: one label wrong in ten batches of four is printed as 0.0750, each image having its batch's value.
    right = np.repeat([1.0] * 9 + [0.75], 4)
    batches = np.repeat(np.arange(10), 4)
    assert summary(right, np.zeros(40, dtype=bool), clusters=batches)["std"] == pytest.approx(0.075)
    assert right.std(ddof=1) != pytest.approx(0.075, abs=5e-4)


def test_one_trial_one_cluster_and_infinity_have_no_deviation() -> None:
    assert np.isnan(summary(np.array([1.0]), np.zeros(1, dtype=bool))["std"])
    assert np.isnan(summary(np.array([1.0, 2.0]), np.zeros(2, dtype=bool), clusters=np.zeros(2))["std"])
    assert np.isnan(summary(np.array([1.0, np.inf]), np.zeros(2, dtype=bool))["std"])
