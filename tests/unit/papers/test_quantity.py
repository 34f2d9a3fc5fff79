"""Differences, ratios and extremes of measured quantities."""

import math
from dataclasses import replace

import numpy as np
import pytest

from leakbench.papers.scorecard import quantity
from leakbench.papers.scorecard.quantity import Measured, NotMeasured, Trials, exactly


def made(values: list[float], leaf: str = "", **more: object) -> Measured:
    kept = Trials({str(i): v for i, v in enumerate(values)}, {str(i): str(i) for i in range(len(values))})
    like = Measured(0.0, n=len(values), leaves=frozenset({(leaf, 0)} if leaf else ()), **more)  # type: ignore[arg-type]
    return quantity.from_trials(kept, like)


def interval(value: float, low: float, high: float, leaf: str = "") -> Measured:
    return Measured(value, low, high, 10, 10, leaves=frozenset({(leaf, 0)} if leaf else ()))


NOISE = np.random.default_rng(0).normal(0, 5, 12)


def test_a_difference_on_the_same_trials_is_paired() -> None:
    a, b = made([*(30 + NOISE)]), made([*(29 + NOISE + 0.1 * np.sin(range(12)))])
    apart = a - b
    assert apart.value == pytest.approx(a.value - b.value)
    assert apart.high - apart.low < 0.2
    assert a.high - a.low > 4


def test_a_difference_on_other_trials_adds_squares() -> None:
    apart = interval(5, 4, 6) - interval(2, -2, 3)
    assert (apart.value, apart.low, apart.high) == pytest.approx(
        (3, 3 - math.hypot(1, 1), 3 + math.hypot(1, 4))
    )


def test_a_threshold_keeps_trials_and_counts() -> None:
    a = made([*(30 + NOISE)]) - 10
    assert (a.n, a.independent, a.value) == (12, 12, pytest.approx(20 + NOISE.mean()))
    assert (10 - a).value == pytest.approx(-10 - NOISE.mean())
    assert (-a).low == pytest.approx(-a.high)
    assert (100 * a).value == pytest.approx(100 * a.value)


def test_a_ratio_spans_its_corners_and_knows_zero() -> None:
    found = interval(6, 4, 8) / interval(2, 1, 4)
    assert (found.value, found.low, found.high) == (3, 1, 8)
    assert (interval(6, 4, 8) / interval(2, 0, 4)).high == math.inf
    assert math.isnan((interval(6, 4, 8) / exactly(0)).value)
    assert (interval(6, 4, 8) / 2).value == 3


def test_budgets_of_two_sides_are_compared() -> None:
    long, short = made([*NOISE]), made([*NOISE], length=0.6)
    assert (long - short).unequal
    assert not (short - exactly(3)).unequal
    assert not quantity.mean([long, short]).unequal
    assert quantity.least([long - short, long]).unequal
    assert quantity.mean([long, short]).length == 0.6


def test_extremes_carry_the_interval_that_all_parts_must_meet() -> None:
    some = [interval(5, 1, 6, "a"), interval(4, 3, 9, "b")]
    found = quantity.least(some)
    assert (found.value, found.low, found.high) == (4, 1, 6)
    found = quantity.greatest(some)
    assert (found.value, found.low, found.high) == (5, 3, 9)
    unknown = quantity.least([*some, Measured(7.0, n=2, independent=2)])
    assert (unknown.value, unknown.independent) == (4, 2)
    assert math.isnan(unknown.low)


def test_what_rests_on_the_same_rows_is_counted_once() -> None:
    twice = [interval(1, 0, 2, "a"), interval(1, 0, 2, "a"), interval(4, 3, 5, "b")]
    assert len(quantity.distinct(twice)) == 2
    assert quantity.mean(twice).value == 2.5
    assert (quantity.mean(twice).high - 2.5) == pytest.approx(math.hypot(1, 1) / 2)
    with pytest.raises(NotMeasured):
        quantity.mean([])


def test_shares_counts_and_places() -> None:
    some = [interval(5, 4, 6, "a"), interval(3, 1, 5, "b"), interval(1, 0, 2, "c")]
    found = quantity.share_above(some, 2.5)
    assert (found.value, found.low, found.high) == pytest.approx((2 / 3, 1 / 3, 2 / 3))
    assert quantity.count_above(some, 2.5).value == 2
    place = quantity.greatest_at({1.0: some[0], 2.0: some[1], 3.0: some[2]})
    assert (place.value, place.low, place.high) == (1, 1, 2)
    assert quantity.rank_correlation([1, 2, 3], some).value == pytest.approx(-1)
    assert math.isnan(quantity.rank_correlation([1, 2, 3], some).low)


def test_room_and_magnitude() -> None:
    near = quantity.within(interval(28, 27.5, 28.2), 27.9, 0.3)
    assert (near.value, *near.ends) == pytest.approx((0.2, -0.1, 0.3))
    assert (quantity.magnitude(interval(-1, -3, 2)).low, quantity.magnitude(interval(-1, -3, 2)).high) == (
        0,
        3,
    )


def test_a_deviation_has_the_interval_of_normal_theory() -> None:
    ten = replace(exactly(1), independent=10, extra={"std": 0.1})
    found = quantity.deviation(ten)
    assert found.low < 0.1 < found.high
    assert quantity.deviation(ten, 100).value == pytest.approx(10)
    with pytest.raises(NotMeasured):
        quantity.deviation(replace(ten, independent=1))


def test_a_deviation_of_zero_has_the_interval_of_its_counts() -> None:
    # Ten updates of eight images whose 80 labels are all right.
    right = replace(exactly(1), n=80, independent=10, extra={"std": 0.0})
    found = quantity.deviation(right)
    assert (found.value, found.low) == (0, 0)
    wrong = 1 - 0.025 ** (1 / 80)
    assert found.high == pytest.approx((wrong * (1 - wrong) / 8) ** 0.5)
    # One or two wrong labels of 80 deviate by 0.0375 or 0.05, and neither would be surprising.
    assert found.high > 0.05
    assert quantity.deviation(replace(right, n=10)).high > found.high
    assert quantity.deviation(right, 100).high == pytest.approx(100 * found.high)
    # Equal values of another kind have no counts.
    assert quantity.deviation(replace(right, value=0.5)).high == 0


def test_a_median_is_that_of_independent_trials() -> None:
    ten = made([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 50.0, 51.0, 52.0, 53.0])
    found = quantity.median(ten)
    assert (found.value, found.low, found.high) == (5.5, 2.0, 52.0)
    assert math.isnan(quantity.median(made([1.0, 2.0, 50.0])).low)
    with pytest.raises(NotMeasured):
        quantity.median(exactly(1))


def test_what_no_combination_has_is_dropped_and_what_every_part_has_is_kept() -> None:
    one = replace(made([*NOISE]), nulls=(1.0, 2.0), networks=1, open_end=True)
    five = replace(made([*NOISE]), networks=5)
    assert quantity.scaled(one, 2.0).nulls == (2.0, 4.0)
    assert ((one - five).nulls, (one - five).networks, (one - five).open_end) == ((), 1, True)
    assert (one - 1.0).networks == 1
    assert (exactly(1) - exactly(1)).networks == 0


def test_trials_that_are_won_are_counted_and_need_single_trials() -> None:
    lead = made([3, -1, 2, 5]) - made([1, 1, 1, 1])
    assert quantity.won(lead).value == 0.75
    assert quantity.won(lead).low < 0.75 < quantity.won(lead).high
    with pytest.raises(NotMeasured):
        quantity.won(exactly(1))


def test_a_curve_is_near_its_end_from_the_first_such_place_on() -> None:
    curve = {1: interval(0.2, 0.1, 0.3), 2: interval(0.895, 0.8, 0.9), 3: interval(0.7, 0.6, 0.8)}
    assert quantity.first_near_end(curve | {4: interval(0.9, 0.8, 1)}, 0.01).value == 2
    assert quantity.first_near_end(curve, 0.01).value == 3


def test_null_baselines_must_all_be_beaten() -> None:
    good, bad, none = (made([*NOISE], beats_null=each) for each in (True, False, None))
    assert (good - none).beats_null is True
    assert quantity.mean([good, bad]).beats_null is False
    assert (none - none).beats_null is None


@pytest.mark.parametrize("wrong", ["text", None, True, [1]])
def test_only_numbers_are_quantities(wrong: object) -> None:
    with pytest.raises(TypeError):
        _ = exactly(1) + wrong  # type: ignore[operator]
    with pytest.raises(TypeError):
        _ = exactly(1) * exactly(2)
