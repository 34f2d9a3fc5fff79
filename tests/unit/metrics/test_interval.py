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
