"""Whether a short run had settled: the rule on curves whose end is known."""

import numpy as np
import pytest

from leakbench.metrics.scoring.falls import POINTS, falls
from leakbench.papers.verdicts.settled import settled

STEPS = np.linspace(0, 999, 100)


def test_a_loss_that_still_falls_has_not_settled_and_one_that_lies_still_has() -> None:
    # A power law falls by the same share in each doubling, wherever it is stopped.
    found = falls(np.stack([1 / (1 + STEPS), 0.3 + np.exp(-STEPS / 50), np.full(100, 0.2)]))
    assert found[0] == pytest.approx(0.28, abs=0.02)
    assert (np.abs(found[1:]) < 1e-3).all()
    assert not settled([found[0]])
    assert settled(found[1:])


def test_single_losses_may_be_noisy() -> None:
    rng = np.random.default_rng(0)
    noisy = 0.5 + 0.005 * rng.standard_normal((200, 100))
    assert settled(falls(noisy))
    assert not settled(falls(noisy - STEPS / 5000))


def test_a_trial_that_ended_before_the_run_had_no_use_for_more() -> None:
    ended, diverged = 1 / (1 + STEPS), 1 / (1 + STEPS)
    ended[40:], diverged[90:] = np.nan, np.inf
    assert falls(np.stack([ended, diverged, np.zeros(100)])).tolist() == [0, 0, 0]


def test_nine_in_ten_trials_must_have_settled() -> None:
    assert settled([0.0] * 9 + [0.5])
    assert not settled([0.0] * 8 + [0.5] * 2)


def test_a_few_losses_show_nothing() -> None:
    assert falls(np.ones((5, POINTS - 1))).size == 0
    assert falls(np.ones((5, POINTS))).size == 5
    assert not settled([])


def test_the_metric_must_have_settled_too_where_images_on_the_way_tell() -> None:
    still = [0.0] * 10
    assert settled(still, [0.1] * 9 + [2.0], tolerance=1.5)
    assert not settled(still, [0.2] * 10, tolerance=1.5)
    assert not settled(still, [-0.2] * 10, tolerance=1.5)
    assert not settled(still, [float("nan")] * 10, tolerance=1.5)
