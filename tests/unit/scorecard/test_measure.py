import math

import numpy as np
import pandas as pd
import pytest

from leakbench.errors import UserError
from leakbench.scorecard.measure import (
    Measured,
    NotMeasured,
    average,
    deviation,
    difference,
    exactly,
    greatest,
    least,
    pick,
    ratio,
    share_of_conditions,
    where_greatest,
    within,
)

UNDEFINED = Measured(math.nan, math.nan, math.nan, 1)


def table() -> pd.DataFrame:
    row = {
        "victim": "fcnn-relu", "local_samples": 30, "baseline": np.nan, "metric": "revealed",
        "convention": "standard",
        "mean": 10.0, "ci_low": 9.0, "ci_high": 11.5, "n": 200, "seeds": "0",
    }  # fmt: skip
    return pd.DataFrame([
        row,
        row | {"local_samples": 50, "mean": 8.0, "ci_low": np.nan, "ci_high": np.nan, "n": 1},
        row | {"baseline": "random-gradient", "mean": 0.0},
        row | {"convention": "published", "mean": 99.0},
        row | {"metric": "mse", "mean": np.nan},
        row | {"metric": "mse", "local_samples": 50, "mean": 5.0, "ci_low": 5.1, "ci_high": 6.0},
    ])  # fmt: skip


def test_pick_finds_the_standard_row_without_baselines() -> None:
    assert pick(table(), metric="revealed", local_samples=30) == Measured(10.0, 9.0, 11.5, 200)
    assert pick(table(), metric="revealed", baseline="random-gradient").value == 0.0
    assert pick(table(), metric="revealed", convention="published").value == 99.0


def test_pick_compares_numbers_as_numbers() -> None:
    text = table().assign(local_samples=lambda t: t.local_samples.astype(float).astype(str))
    assert pick(text, metric="revealed", local_samples=30).value == 10.0


def test_one_measurement_has_no_width_and_the_mean_is_always_inside() -> None:
    assert pick(table(), metric="revealed", local_samples=50) == Measured(8.0, 8.0, 8.0, 1)
    assert pick(table(), metric="mse", local_samples=50).low == 5.0


def test_pick_refuses_what_is_not_one_row() -> None:
    with pytest.raises(NotMeasured, match="fig has no row for metric=revealed, local_samples=7"):
        pick(table(), "fig", metric="revealed", local_samples=7)
    with pytest.raises(NotMeasured, match="no value"):
        pick(table(), metric="mse", local_samples=30)
    with pytest.raises(UserError, match=r"2 rows match metric=revealed .they differ in local_samples"):
        pick(table(), metric="revealed")
    with pytest.raises(UserError, match="no column 'victims'"):
        pick(table(), metric="revealed", victims="fcnn-relu")


def test_an_interval_contains_its_value() -> None:
    with pytest.raises(ValueError, match="does not contain"):
        Measured(3.0, 1.0, 2.0, 1)


def test_difference_adds_squares() -> None:
    d = difference(Measured(10, 7, 13, 5), Measured(4, 0, 8, 9))
    assert (d.value, d.low, d.high, d.n) == (6, 1, 11, 5)
    doubled = difference(Measured(10, 10, 10, 5), Measured(4, 3, 6, 9), times=2)
    assert (doubled.value, doubled.low, doubled.high) == (2, -2, 4)


def test_difference_interval_covers_the_true_difference() -> None:
    rng = np.random.default_rng(1)
    n, hits = 40, 0

    def estimate(mean: float) -> Measured:
        x = rng.normal(mean, 1, n)
        half = 2.02 * x.std(ddof=1) / math.sqrt(n)
        return Measured(x.mean(), x.mean() - half, x.mean() + half, n)

    for _ in range(1000):
        d = difference(estimate(3.0), estimate(1.0))
        hits += d.low <= 2.0 <= d.high
    assert 920 <= hits <= 980


def test_ratio() -> None:
    r = ratio(Measured(6, 4, 8, 5), Measured(3, 2, 4, 9))
    assert (r.value, r.low, r.high, r.n) == (2, 1, 4, 5)
    assert ratio(Measured(6, 4, 8, 5), Measured(3, 0, 4, 9)).high == math.inf
    assert math.isnan(ratio(exactly(1), exactly(0)).value)


def test_average() -> None:
    a = average([Measured(2, -1, 5, 4), Measured(4, 0, 8, 3)])
    assert (a.value, a.low, a.high, a.n) == (3, 0.5, 5.5, 3)


def test_extremes_pass_on_the_undefined() -> None:
    parts = [Measured(2, 1, 9, 4), Measured(3, 0, 4, 2)]
    assert least(parts) == Measured(2, 0, 4, 2)
    assert greatest(parts) == Measured(3, 1, 9, 2)
    for order in ([*parts, UNDEFINED], [UNDEFINED, *parts]):
        assert math.isnan(least(order).value)
        assert math.isnan(greatest(order).value)


def test_share_of_conditions() -> None:
    parts = [Measured(3, 2, 4, 9), Measured(3, 0, 4, 9), Measured(0, -1, 2, 9), Measured(0, 0, 0, 9)]
    assert share_of_conditions(parts, above=1) == Measured(0.5, 0.25, 0.75, 4)


def test_where_greatest() -> None:
    curve = {
        10: Measured(5, 4, 6, 9),
        20: Measured(9, 8, 10, 9),
        30: Measured(8.5, 7, 9, 9),
        50: Measured(1, 0, 2, 9),
    }
    assert where_greatest(curve) == Measured(20, 20, 30, 9)


def test_room_within_a_band_by_hand() -> None:
    cases = {
        (28.0, 27.95, 28.1): (0.2, 0.1, 0.25),
        (27.9, 27.8, 28.1): (0.3, 0.1, 0.3),
        (27.5, 27.4, 27.55): (-0.1, -0.2, -0.05),
    }
    for ends, wanted in cases.items():
        found = within(Measured(*ends, 5), 27.9, 0.3)
        assert (found.value, found.low, found.high) == pytest.approx(wanted)
        assert found.n == 5


def test_the_interval_of_a_deviation_covers_the_true_one_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    found = [deviation(float(rng.normal(0, 2, 10).std()), 10) for _ in range(2000)]
    covered = np.mean([each.low <= 2 <= each.high for each in found])
    assert covered == pytest.approx(0.95, abs=0.015)
    for n in (2, 10, 1000):
        each = deviation(1.0, n)
        assert each.low < 1 < each.high
    assert deviation(0.0, 10) == Measured(0, 0, 0, 10)


@pytest.mark.parametrize(("std", "n"), [(math.nan, 10), (0.1, 1), (0.1, 0)])
def test_one_update_has_no_deviation(std: float, n: int) -> None:
    with pytest.raises(NotMeasured, match="no deviation"):
        deviation(std, n)
