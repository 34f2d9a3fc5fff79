"""Which trials count as failed, and a measured rate above its certified bound ends the table."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakbench.base.errors import UserError
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables.failures import failed
from leakbench.results.tables.of_attacks import check_bounds

Line = tuple[str, int, float]
MEANS: list[Line] = [("dataset-mean", 1, 0.2), ("dataset-mean", 2, 0.4)]


def rows(lines: list[Line], **columns: Any) -> pd.DataFrame:
    """Return score rows of one cell: (baseline, image, mse)."""
    frame = pd.DataFrame(lines, columns=["baseline", "image", "mse"])
    return frame.assign(**{"client": 0, "status": "ok"} | columns)


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        # Each image is compared with the mean image for the same private image.
        ([("", 1, 0.3), ("", 2, 0.3), ("", 1, 0.1), ("", 2, 0.4)], [True, False, False, True]),
        # Where the mean was not scored for an image, with the mean of those scores.
        ([("", 7, 0.29), ("", 7, 0.31)], [False, True]),
        # What is on the way may fail, and a null baseline may not.
        ([("snapshot", 1, 0.3), ("random-noise", 1, 0.9), ("random-gradient", 1, 0.9)], [True, False, False]),
        # An image that cannot be displayed.
        ([("", 1, np.nan)], [True]),
    ],
)
def test_an_image_is_compared_with_the_mean_image(lines: list[Line], lost: list[bool]) -> None:
    assert failed(rows([*lines, *MEANS]), "images").tolist() == [*lost, False, False]


def test_the_same_number_of_another_client_is_another_image() -> None:
    scored = rows([("", 1, 0.3), ("dataset-mean", 1, 0.2), ("dataset-mean", 1, 0.4)], client=[1, 0, 1])
    assert failed(scored, "images").tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("metric", "good", "bad"), [("psnr", 20.0, 10.0), ("ssim", 0.5, 0.1), ("pearson", 0.9, 0.3)]
)
def test_without_an_mse_the_next_measure_decides(metric: str, good: float, bad: float) -> None:
    scored = rows([("", 1, good), ("", 1, bad), ("dataset-mean", 1, bad)]).rename(columns={"mse": metric})
    assert failed(scored, "images").tolist() == [False, True, False]
    # A column that another attack on the capture asked for says nothing of this one.
    assert failed(scored.assign(mse=np.nan), "images").tolist() == [False, True, False]


def test_features_fail_only_where_nothing_came() -> None:
    scored = rows([("", 1, 0.9), ("", 2, 0.1), *MEANS], status=["ok", "diverged", "ok", "ok"])
    assert failed(scored, "features").tolist() == [False, True, False, False]
    assert failed(scored, "images").tolist() == [True, True, False, False]


def table(low: float, **others: Any) -> pd.DataFrame:
    """Return a rate of 0.6 with a certified bound of 0.5, and a rate without a bound."""
    line = {
        "dataset": "d", "victim": "v", "federation": "f", "defence": "dp-sgd", "attack": "alignment",
        "client": 0, "metric": "tpr_at_fpr_0", "unit": "update", "seeds": "0", "scale": "quick",
    }  # fmt: skip
    own = {"baseline": "", "mean": 0.6, "ci_low": low, "ci_high": 0.65, "n": 200}
    other = {"baseline": CERTIFIED, "mean": 0.5, "n": 1}
    unbounded = {"metric": "members_accepted", "mean": 1.0, "ci_low": 1.0, "ci_high": 1.0}
    return pd.DataFrame([line | own, line | other, line | own | unbounded]).assign(**others)


def test_an_interval_above_the_bound_of_its_own_cell_is_an_error_that_names_the_cell() -> None:
    named = r"d/v/f/dp-sgd/alignment: tpr_at_fpr_0: measured 0\.6, interval 0\.55"
    with pytest.raises(UserError, match=named):
        check_bounds(table(0.55))
    check_bounds(table(0.5))
    check_bounds(table(float("nan")))
    # A bound on another attack bounds nothing here, and most tables have none.
    check_bounds(table(0.55, attack=["one", "other", "one"]))
    check_bounds(table(0.55, baseline=""))
