"""The empirical lower bound of ε, held to mechanisms whose ε is known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from leakbench.defences.certification import epsilon_of, of_normal_noise
from leakbench.metrics.epsilon import RATES, lower_bound, place_of_member
from leakbench.metrics.scoring.membership import add_epsilon

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
