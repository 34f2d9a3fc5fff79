"""Which trials count as failed, and a measured rate above its certified bound ends the table."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakbench.base.errors import UserError
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables import certified
from leakbench.results.tables.failures import failed


def rows(*lines: tuple[str, int, float], **columns: Any) -> pd.DataFrame:
    """Return score rows of one cell: (baseline, image, mse)."""
    frame = pd.DataFrame(lines, columns=["baseline", "image", "mse"])
    return frame.assign(**{"client": 0, "status": "ok"} | columns)


MEANS = (("dataset-mean", 1, 0.2), ("dataset-mean", 2, 0.4))


def test_an_image_is_compared_with_the_mean_image_for_the_same_private_image() -> None:
    found = failed(rows(("", 1, 0.3), ("", 2, 0.3), ("", 1, 0.1), ("", 2, 0.4), *MEANS), "images")
    assert found.tolist() == [True, False, False, True, False, False]


def test_an_image_for_which_the_mean_was_not_scored_is_compared_with_the_mean_of_those_scores() -> None:
    found = failed(rows(("", 7, 0.29), ("", 7, 0.31), *MEANS), "images")
    assert found.tolist() == [False, True, False, False]


def test_the_same_number_of_another_client_is_another_image() -> None:
    scored = rows(("", 1, 0.3), ("dataset-mean", 1, 0.2), ("dataset-mean", 1, 0.4), client=[1, 0, 1])
    assert failed(scored, "images").tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("metric", "good", "bad"), [("psnr", 20.0, 10.0), ("ssim", 0.5, 0.1), ("pearson", 0.9, 0.3)]
)
def test_without_an_mse_the_next_measure_decides(metric: str, good: float, bad: float) -> None:
    scored = rows(("", 1, good), ("", 1, bad), ("dataset-mean", 1, bad)).rename(columns={"mse": metric})
    assert failed(scored, "images").tolist() == [False, True, False]
    # A column that another attack on the capture asked for says nothing of this one.
    assert failed(scored.assign(mse=np.nan), "images").tolist() == [False, True, False]


def test_what_is_on_the_way_may_fail_and_a_null_baseline_may_not() -> None:
    scored = rows(("snapshot", 1, 0.3), ("random-noise", 1, 0.9), ("random-gradient", 1, 0.9), *MEANS)
    assert failed(scored, "images").tolist() == [True, False, False, False, False]


def test_an_image_that_cannot_be_displayed_has_failed() -> None:
    assert failed(rows(("", 1, np.nan), *MEANS), "images").tolist() == [True, False, False]


def test_features_fail_only_where_nothing_came() -> None:
    scored = rows(("", 1, 0.9), ("", 2, 0.1), *MEANS, status=["ok", "diverged", "ok", "ok"])
    assert failed(scored, "features").tolist() == [False, True, False, False]
    assert failed(scored, "images").tolist() == [True, True, False, False]


def table(mean: float, low: float, high: float, bound: float) -> pd.DataFrame:
    line = {
        "dataset": "d", "victim": "v", "federation": "f", "defence": "dp-sgd", "attack": "alignment",
        "client": 0, "metric": "tpr_at_fpr_0", "unit": "update", "seeds": "0", "scale": "quick",
    }  # fmt: skip
    own = {"baseline": "", "mean": mean, "ci_low": low, "ci_high": high, "n": 200}
    other = {"baseline": CERTIFIED, "mean": bound, "n": 1}
    unbounded = {"metric": "members_accepted", "mean": 1.0, "ci_low": 1.0, "ci_high": 1.0}
    return pd.DataFrame([line | own, line | other, line | own | unbounded])


def breaks(rows: pd.DataFrame) -> bool:
    """Return whether the check ends the table."""
    try:
        certified.check_bounds(rows)
    except UserError:
        return True
    return False


def holds() -> None:
    """Assert that only an interval above the bound of its own cell is an error."""
    above = table(0.6, 0.55, 0.65, 0.5)
    assert breaks(above)
    assert not breaks(table(0.6, 0.5, 0.65, 0.5))
    assert not breaks(table(0.6, float("nan"), float("nan"), 0.5))
    # A bound on another attack bounds nothing here, and most tables have none.
    assert not breaks(above.assign(attack=["one", "other", "one"]))
    assert not breaks(above[above["baseline"] == ""])


def test_an_interval_above_the_bound_is_an_error_that_names_the_cell() -> None:
    with pytest.raises(
        UserError, match=r"d/v/f/dp-sgd/alignment: tpr_at_fpr_0: measured 0\.6, interval 0\.55"
    ):
        certified.check_bounds(table(0.6, 0.55, 0.65, 0.5))


def test_an_interval_above_the_bound_is_an_error_and_one_that_reaches_it_is_none() -> None:
    holds()


def test_a_check_that_looks_at_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above."""
    monkeypatch.setattr(certified, "check_bounds", lambda rows: None)
    with pytest.raises(AssertionError):
        holds()
