"""Success rates against a plain loop over images and thresholds."""

import math

import numpy as np
import pytest

from leakbench.metrics.success import THRESHOLDS, successes


@pytest.mark.parametrize("metric", ["psnr", "ssim", "mse"])
def test_the_share_of_good_images_is_that_of_a_plain_loop(metric: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 60, 50) if metric == "psnr" else rng.uniform(-0.1, 1, 50)
    values[3] = math.nan
    values[4] = math.inf if metric == "psnr" else values[4]
    failures = rng.random(50) < 0.2
    shares = successes(values, failures, metric).mean(axis=1)
    assert len(shares) == 21
    for step, share in enumerate(shares):
        good = 0
        for value, failed in zip(values, failures, strict=True):
            if failed or math.isnan(value):
                continue
            if metric == "psnr":
                good += value >= step / 20 * 20 * math.log10(255)
            elif metric == "ssim":
                good += value >= step / 20
            else:
                good += value <= step / 20
        assert share == pytest.approx(good / 50, abs=1e-12)


def test_a_threshold_that_is_met_exactly_counts() -> None:
    nothing_failed = np.zeros(1, bool)
    at = THRESHOLDS.index(0.35)
    for metric in ("ssim", "mse"):
        assert successes(np.array([0.35]), nothing_failed, metric)[at, 0]
    assert successes(np.array([math.inf]), nothing_failed, "psnr").all()


def test_what_did_not_come_out_is_no_success_at_any_threshold() -> None:
    failed = np.array([True, False])
    for metric in ("psnr", "ssim", "mse"):
        assert not successes(np.array([0.5, math.nan]), failed, metric).any()


def test_thresholds_are_normalised_for_three_metrics() -> None:
    with pytest.raises(ValueError, match="lpips_alex"):
        successes(np.zeros(1), np.zeros(1, bool), "lpips_alex")
    with pytest.raises(ValueError, match="2 values but 1 failures"):
        successes(np.zeros(2), np.zeros(1, bool), "mse")
