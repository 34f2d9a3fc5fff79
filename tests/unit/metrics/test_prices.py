"""Prices of a round, told for each of its images."""

import numpy as np

from leakbench.metrics import METRICS
from leakbench.metrics.prices import of_rounds


def test_every_image_of_a_round_bears_its_rounds_price() -> None:
    found = of_rounds(np.array([10, 30, 20]), 2)
    assert found.dtype == np.float64
    assert found.tolist() == [10, 10, 30, 30, 20, 20]


def test_accuracy_is_of_models_and_bytes_are_of_updates() -> None:
    assert (METRICS["accuracy"].of, METRICS["accuracy"].higher_is_better) == ("models", True)
    assert (METRICS["update_bytes"].of, METRICS["update_bytes"].higher_is_better) == ("updates", False)
