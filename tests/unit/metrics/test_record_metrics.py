"""Metrics of records, by hand."""

import numpy as np

from leakbench.datasets.columns import columns_of
from leakbench.metrics import measure
from leakbench.metrics.baselines import typical_record
from leakbench.metrics.records import TOLERANCE

COLUMNS = columns_of([{"age": [0, 100, 1]}, {"work": ["a", "b", "c"]}, {"rate": [0, 1, 0.001]}])
DEVIATIONS = np.array([0.1, 0.4, 0.4, 0.4, 0.2])
TRUTH = [0.5, 0, 1, 0, 0.25]


def scored(*guesses: list[float]) -> tuple[list[float], list[float]]:
    guessed = np.array(guesses, np.float32)[:, None, None]
    truths = np.broadcast_to(np.array(TRUTH, np.float32), guessed.shape)
    needs = {"columns": COLUMNS, "deviations": DEVIATIONS}
    found = measure(["feature_accuracy", "exact_record"], guessed, truths, needs)
    return found["feature_accuracy"].round(6).tolist(), found["exact_record"].tolist()


def test_a_number_is_right_within_its_tolerance_and_exact_within_half_a_step() -> None:
    near, far = 0.5 + 0.99 * TOLERANCE * 0.1, 0.5 + 1.01 * TOLERANCE * 0.1
    features, exact = scored(
        TRUTH,
        [0.5049, 0, 1, 0, 0.2504],
        [0.5051, 0, 1, 0, 0.25],
        [0.5, 0, 1, 0, 0.2506],
        [near, 0, 1, 0, 0.25],
        [far, 0, 1, 0, 0.25],
    )
    assert features == [1, 1, 1, 1, 1, round(2 / 3, 6)]
    assert exact == [1, 1, 0, 0, 0, 0]


def test_a_category_is_right_if_its_place_alone_holds_the_largest_number() -> None:
    features, exact = scored(
        [0.5, 0.3, 0.31, 0.1, 0.25], [0.5, 0.31, 0.31, 0.1, 0.25], [0.5, 0.9, 0.31, 0.1, 0.25]
    )
    assert features == [1, round(2 / 3, 6), round(2 / 3, 6)]
    assert exact == [1, 0, 0]


def test_what_is_no_number_is_wrong() -> None:
    features, exact = scored([np.nan] * 5, [np.inf, 0, 1, 0, 0.25])
    assert (features, exact) == ([0, 0], [0, 0])


def test_the_typical_record_has_medians_and_the_most_frequent_categories() -> None:
    train = np.array(
        [[0.1, 1, 0, 0, 0.0], [0.2, 1, 0, 0, 0.0], [0.9, 0, 1, 0, 0.5], [0.3, 0, 0, 1, 0.6]], np.float32
    )
    np.testing.assert_allclose(typical_record(train, COLUMNS), [0.25, 1, 0, 0, 0.25])
