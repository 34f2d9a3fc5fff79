import fnmatch
import math
from pathlib import Path

import pytest
import yaml

from leakbench.base.errors import UserError
from leakbench.metrics import METRICS
from leakbench.metrics.success import PREFIX
from leakbench.papers.verdicts.tolerances import TOLERANCES, possible, tolerance_of
from leakbench.results.tables import trained as study_table

TABLE = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text())

OF_UPDATES = [
    "revealed", "revealed_fraction", "exact_fraction", "revealed_cumulative", "usable_neurons",
    "isolating_neurons", "isolating_share", "pearson_unrevealed",
]  # fmt: skip


def names() -> set[str]:
    own = {"accuracy", "gap_to_random", "test_loss", *study_table.TRAINED, *study_table.WHOLE}
    return {*METRICS, *own, *study_table.SOMETIMES, *study_table.BY_RULE, *OF_UPDATES, PREFIX + "ssim"}


@pytest.mark.parametrize("metric", sorted(names()))
def test_every_metric_of_a_table_has_a_tolerance(metric: str) -> None:
    tolerance, (low, high), _ = tolerance_of(metric, 0.5)
    assert tolerance > 0
    assert low < high


@pytest.mark.parametrize(("metric", "published", "unit", "expected"), TABLE["tolerances"])
def test_tolerances_in_the_printed_unit(
    metric: str, published: float, unit: float, expected: tuple[float, tuple[float, float], bool]
) -> None:
    tolerance, bounds, monotone = tolerance_of(metric, published, unit)
    assert (tolerance, monotone) == (pytest.approx(expected[0]), expected[2])
    assert bounds == tuple(expected[1])


@pytest.mark.parametrize(("metric", "unit", "interval", "expected"), TABLE["intervals"])
def test_a_shown_interval_ends_where_the_metric_does(
    metric: str, unit: float, interval: tuple[float, float], expected: tuple[float, float]
) -> None:
    assert possible(metric, *interval, unit) == tuple(expected)


def test_no_interval_is_shown_where_there_is_none() -> None:
    assert all(map(math.isnan, possible("ssim", math.nan, math.nan)))


def test_one_dB_of_rmse_is_two_of_mse() -> None:
    # 10 log10(255² / RMSE) of a true PSNR P is (P + 20 log10 255) / 2.
    half, bounds, _ = tolerance_of("psnr_of_rmse", 28.0)
    assert half == tolerance_of("psnr", 8.0)[0] / 2
    assert bounds == pytest.approx([(p + 20 * math.log10(255)) / 2 for p in (0, 60)], abs=0.01)


def test_a_metric_without_a_line_is_named() -> None:
    with pytest.raises(UserError, match="no tolerance for 'sharpness'"):
        tolerance_of("sharpness", 1.0)


def test_no_line_is_left_of_a_metric_that_went() -> None:
    kinds = [
        "db", "share", "correlation", "model_accuracy", "count", "ratio", "deviation", "other",
        "failure_rate",
    ]  # fmt: skip
    assert [line for line in TOLERANCES if not fnmatch.filter([*names(), *kinds], line)] == []
