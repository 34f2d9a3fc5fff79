"""Which trials count as failed: those of which nothing came, and images no nearer than the data set's mean
image."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

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
