import math

import pytest

from leakbench.base.errors import UserError
from leakbench.metrics import METRICS
from leakbench.metrics.success import PREFIX
from leakbench.papers.verdicts.tolerances import TOLERANCES, possible, tolerance_of
from leakbench.results.tables import trained as study_table

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


@pytest.mark.parametrize(
    ("metric", "published", "unit", "expected"),
    [
        ("psnr", 20.0, 1, (1.5, (0, 60), True)),
        ("psnr_uint8_wrap", 20.0, 1, (1.5, (0, 60), False)),
        ("ssim", 0.9, 1, (0.075, (0, 1), True)),
        ("lpips_vgg_raw255_bgr", 0.1, 1, (0.05, (0, 1), True)),
        ("pearson", 0.9, 1, (0.075, (-1, 1), True)),
        ("label_accuracy", 97.5, 100, (10, (0, 100), True)),
        ("success_ssim", 0.5, 1, (0.1, (0, 1), True)),
        ("accuracy", 98.1, 100, (2, (0, 100), True)),
        ("revealed", 20, 1, (2, (0, math.inf), True)),
        ("tv_ratio", 4, 1, (1, (0, math.inf), True)),
        ("rmse_255", -40, 1, (10, (0, 255), True)),
        ("db", 3, 1, (1.5, (-math.inf, math.inf), True)),
    ],
)
def test_tolerances_in_the_printed_unit(
    metric: str, published: float, unit: float, expected: tuple[float, tuple[float, float], bool]
) -> None:
    tolerance, bounds, monotone = tolerance_of(metric, published, unit)
    assert (tolerance, monotone) == (pytest.approx(expected[0]), expected[2])
    assert bounds == expected[1]


@pytest.mark.parametrize(
    ("metric", "unit", "interval", "expected"),
    [
        ("label_accuracy", 1, (0.9, 1.1), (0.9, 1.0)),
        ("label_accuracy", 100, (-3.0, 104.0), (0.0, 100.0)),
        ("pearson", 1, (-1.2, 1.2), (-1.0, 1.0)),
        ("revealed", 1, (-2.0, 7.0), (0.0, 7.0)),
        # Two images may be nearer than is told apart, or less alike than chance.
        ("psnr", 1, (-1.0, 155.0), (0.0, 155.0)),
        ("ssim", 1, (-0.1, 1.04), (-0.1, 1.0)),
        ("lpips_alex", 1, (-0.01, 1.1), (0.0, 1.1)),
        ("no metric", 1, (-7.0, 7.0), (-7.0, 7.0)),
    ],
)
def test_a_shown_interval_ends_where_the_metric_does(
    metric: str, unit: float, interval: tuple[float, float], expected: tuple[float, float]
) -> None:
    assert possible(metric, *interval, unit) == expected


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
    kinds = {
        "db",
        "share",
        "correlation",
        "model_accuracy",
        "count",
        "ratio",
        "deviation",
        "other",
        "failure_rate",
    }
    from fnmatch import fnmatchcase

    stale = [line for line in TOLERANCES if not any(fnmatchcase(name, line) for name in names() | kinds)]
    assert not stale
