"""A run whose step size falls again after its end is no half of the published length, unless it settled: the
rule on curves whose end is known."""

from typing import Any

import numpy as np
import pytest

from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.metrics.scoring.falls import POINTS, falls
from leakbench.papers.verdicts.schedule import Schedule, schedule_of, settled

STEPS = {"adam": {"lr": 0.1, "decay": True}}
TIMES = np.linspace(0, 999, 100)
STEADY = {"adam": {"lr": 0.1, "decay": 0.9}}


@pytest.mark.parametrize("full", [1, 7, 100, 4000, 10000])
def test_the_falls_are_those_of_the_optimiser(full: int) -> None:
    drops = Adam(0.1, full, signed=True, decay=True).drops
    for ran in range(1, full + 1, max(1, full // 50)):
        found = schedule_of({"optimiser": STEPS, "decay_over": full}, ran)
        # Iterations count from 0, so the fall at iteration `ran` has not come.
        assert found == Schedule(ran, full, tuple(drop for drop in drops if drop >= ran))


READ = [
    ({"optimiser": STEPS, "decay_over": 10000}, Schedule(5000, 10000, (6250, 8750))),
    ({"optimiser": STEADY, "decay_over": 10000}, Schedule(5000, 10000, (5000,))),
    # Without `decay_over` the whole schedule lies within the run, whatever length is published.
    *(({"optimiser": STEPS} | more, Schedule(5000, 5000))
      for more in ({}, {"decay_over": 5000}, {"decay_over": None}, {"iterations": 10000})),
    ({"optimiser": STEADY}, Schedule(5000, 5000)),
    ({"optimiser": {"adam": {"decay": False}}, "decay_over": 10000}, None),
    *(({"optimiser": parts}, None) for parts in ({"adam": {}}, {}, None)), ({}, None),
]  # fmt: skip


@pytest.mark.parametrize(("attack", "found"), READ)
def test_the_schedule_is_read_from_what_the_catalogue_says(
    attack: dict[str, Any], found: Schedule | None
) -> None:
    assert schedule_of(attack, 5000) == found


def test_a_loss_that_still_falls_has_not_settled_and_one_that_lies_still_has() -> None:
    # A power law falls by the same share in each doubling, wherever it is stopped.
    found = falls(np.stack([1 / (1 + TIMES), 0.3 + np.exp(-TIMES / 50), np.full(100, 0.2)]))
    assert found[0] == pytest.approx(0.28, abs=0.02)
    assert (np.abs(found[1:]) < 1e-3).all()
    assert not settled([found[0]])
    assert settled(found[1:])


def test_single_losses_may_be_noisy() -> None:
    rng = np.random.default_rng(0)
    noisy = 0.5 + 0.005 * rng.standard_normal((200, 100))
    assert settled(falls(noisy))
    assert not settled(falls(noisy - TIMES / 5000))


def test_a_trial_that_ended_before_the_run_had_no_use_for_more() -> None:
    ended, diverged = 1 / (1 + TIMES), 1 / (1 + TIMES)
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
