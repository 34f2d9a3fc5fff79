"""Rates of success, membership and records, prices, and the attackers who know nothing."""

import math

import numpy as np
import pytest

from leakbench.datasets.columns import columns_of
from leakbench.metrics import measure
from leakbench.metrics.baselines import blank, dataset_mean, random_noise, typical_record, unrelated_pairs
from leakbench.metrics.membership import (
    false_acceptances,
    members_accepted,
    membership_auc,
    tpr_at_fpr_0,
    tpr_at_fpr_0_001,
)
from leakbench.metrics.records import TOLERANCE
from leakbench.metrics.success import THRESHOLDS, successes
from leakbench.metrics.updates import of_rounds


@pytest.mark.parametrize(("metric", "full"), [("psnr", 20 * math.log10(255)), ("ssim", 1.0), ("mse", 1.0)])
def test_an_image_is_good_from_its_threshold_on_unless_it_failed(metric: str, full: float) -> None:
    values = full * np.array([0.349, 0.351, 0.5, math.nan])
    good = successes(values, np.array([False, False, True, False]), metric)
    below = metric == "mse"
    assert good.shape == (21, 4)
    assert good[THRESHOLDS.index(0.35)].tolist() == [below, not below, False, False]
    assert good.sum(0).tolist() == [14 if below else 7, 13 if below else 8, 0, 0]
    if metric == "psnr":
        assert successes(np.array([math.inf]), np.zeros(1, bool), metric).all()
    else:
        # A threshold that is met exactly counts.
        assert successes(np.array([0.35]), np.zeros(1, bool), metric)[THRESHOLDS.index(0.35), 0]


MEMBERS = np.array([True, True, False, False, False, False])
NOBODY = np.zeros(6, bool)


@pytest.mark.parametrize(
    ("scores", "auc", "found"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 1.0, 1.0),
        ([0.1, 0.35, 0.3, 0.4, 0.5, 0.6], 7 / 8, 0.5),
        ([0.9, 0.8, 0.3, 0.4, 0.5, 0.6], 0.0, 0.0),
        # Who is as near as a member is a false alarm.
        ([0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 0.5, 0.0),
    ],
)
def test_members_should_be_nearer(scores: list[float], auc: float, found: float) -> None:
    accepted = np.array([True, False, True, False, False, True])
    given = np.array(scores), MEMBERS, accepted
    assert (membership_auc(*given), tpr_at_fpr_0(*given)) == (auc, found)
    assert (members_accepted(*given), false_acceptances(*given)) == (0.5, 2.0)
    # Without members or others there is nothing to tell.
    for members in (NOBODY, ~NOBODY):
        assert np.isnan(membership_auc(given[0], members, NOBODY))
        assert np.isnan(tpr_at_fpr_0(given[0], members, NOBODY))
    assert np.isnan(members_accepted(given[0], NOBODY, NOBODY))


def test_one_in_a_thousand_may_be_a_false_alarm() -> None:
    members = np.arange(1003) < 3
    scores = np.where(members, 0.5, 1.0)
    scores[3] = 0.4
    assert tpr_at_fpr_0(scores, members, members) == 0.0
    assert tpr_at_fpr_0_001(scores, members, members) == 1.0
    scores[4] = 0.4
    assert tpr_at_fpr_0_001(scores, members, members) == 0.0
    # Of fewer than a thousand none may be one.
    assert tpr_at_fpr_0_001(scores[:900], members[:900], members[:900]) == 0.0


COLUMNS = columns_of([{"age": [0, 100, 1]}, {"work": ["a", "b", "c"]}, {"rate": [0, 1, 0.001]}])
DEVIATIONS = np.array([0.1, 0.4, 0.4, 0.4, 0.2])
TRUTH = [0.5, 0, 1, 0, 0.25]


def scored(*guesses: list[float]) -> tuple[list[float], list[float]]:
    guessed = np.array(guesses, np.float32)[:, None, None]
    truths = np.broadcast_to(np.array(TRUTH, np.float32), guessed.shape)
    needs = {"columns": COLUMNS, "deviations": DEVIATIONS}
    found = measure(["feature_accuracy", "exact_record"], guessed, truths, needs)
    return found["feature_accuracy"].round(6).tolist(), found["exact_record"].tolist()


def test_a_number_is_right_within_its_tolerance_and_exact_within_half_a_step() -> None:
    near, far = 0.5 + 0.99 * TOLERANCE * 0.1, 0.5 + 1.01 * TOLERANCE * 0.1
    features, exact = scored(
        TRUTH, [0.5049, 0, 1, 0, 0.2504], [0.5051, 0, 1, 0, 0.25], [0.5, 0, 1, 0, 0.2506],
        [near, 0, 1, 0, 0.25], [far, 0, 1, 0, 0.25], [np.nan] * 5, [np.inf, 0, 1, 0, 0.25],
    )  # fmt: skip
    assert features == [1, 1, 1, 1, 1, round(2 / 3, 6), 0, 0]
    assert exact == [1, 1, 0, 0, 0, 0, 0, 0]


def test_a_category_is_right_if_its_place_alone_holds_the_largest_number() -> None:
    features, exact = scored(
        [0.5, 0.3, 0.31, 0.1, 0.25], [0.5, 0.31, 0.31, 0.1, 0.25], [0.5, 0.9, 0.31, 0.1, 0.25]
    )
    assert features == [1, round(2 / 3, 6), round(2 / 3, 6)]
    assert exact == [1, 0, 0]


def test_the_typical_record_has_medians_and_the_most_frequent_categories() -> None:
    train = np.array(
        [[0.1, 1, 0, 0, 0.0], [0.2, 1, 0, 0, 0.0], [0.9, 0, 1, 0, 0.5], [0.3, 0, 0, 1, 0.6]], np.float32
    )
    np.testing.assert_allclose(typical_record(train, COLUMNS), [0.25, 1, 0, 0, 0.25])


def test_noise_is_uniform_and_seeded() -> None:
    noise = random_noise((50, 3, 16, 16), np.random.default_rng(0))
    assert noise.shape == (50, 3, 16, 16)
    assert 0 <= noise.min() < noise.max() < 1
    assert (noise.mean(), noise.var()) == (pytest.approx(0.5, abs=0.01), pytest.approx(1 / 12, abs=0.002))
    assert np.array_equal(noise, random_noise((50, 3, 16, 16), np.random.default_rng(0)))
    assert (blank((2, 1, 3, 3)) == 0.5).all()
    # Every image of a round bears its round's price.
    assert of_rounds(np.array([10, 30, 20]), 2).tolist() == [10.0, 10.0, 30.0, 30.0, 20.0, 20.0]


def test_the_mean_of_bytes_and_of_floats_is_one_image() -> None:
    stored = np.random.default_rng(2).integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    mean = dataset_mean(stored)
    assert mean.shape == (3, 8, 8)
    assert mean.dtype == np.float32
    assert mean == pytest.approx(dataset_mean(stored / 255), abs=1e-6)
    assert mean[1, 2, 3] == pytest.approx(stored[:, 1, 2, 3].sum() / 30 / 255, abs=1e-6)
    with pytest.raises(ValueError, match="no images"):
        dataset_mean(stored[:0])


def test_unrelated_pairs_are_two_different_images_and_any_is_as_likely() -> None:
    pairs = unrelated_pairs(5, 40_000, np.random.default_rng(3))
    assert pairs.shape == (40_000, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    counts = np.zeros((5, 5))
    np.add.at(counts, (pairs[:, 0], pairs[:, 1]), 1)
    # Twenty ordered pairs of 2000 each, give or take a standard deviation of 44.
    assert np.abs(counts[~np.eye(5, dtype=bool)] - 2000).max() < 220
    with pytest.raises(ValueError, match="1 images make no pair"):
        unrelated_pairs(1, 3, np.random.default_rng(0))
