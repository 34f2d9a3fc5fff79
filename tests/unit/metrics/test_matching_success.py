"""Matching success: was the candidate that is a private image paired with one that was it, a pass before."""

import numpy as np

from leakbench.metrics import METRICS
from leakbench.metrics.update_matching import matching_success

NAN = float("nan")
# Two passes of two rounds, two candidates each; candidates are numbered 0 … 7.
IMAGES = np.array([[10, 11], [12, 13], [13, 10], [11, 12]])
PASSES = np.array([0, 0, 1, 1])
IN_ORDER = np.tile([0, 1], (4, 1))
RIGHT = np.array([[-1, -1], [-1, -1], [3, 0], [1, 2]])


def test_the_first_pass_has_nothing_before_it() -> None:
    found = matching_success(RIGHT, IN_ORDER, IMAGES, PASSES)
    np.testing.assert_array_equal(found, [[NAN, NAN], [NAN, NAN], [1, 1], [1, 1]])
    assert np.isnan(matching_success(RIGHT, IN_ORDER, IMAGES, np.zeros(4, int))).all()


def test_a_wrong_partner_and_none_are_failures() -> None:
    partner = RIGHT.copy()
    partner[2, 0], partner[3, 1] = 2, -1
    assert matching_success(partner, IN_ORDER, IMAGES, PASSES)[2:].tolist() == [[0, 1], [1, 0]]


def test_candidates_in_any_order_are_told_by_the_scorers_match() -> None:
    # Candidates of the second round and of the last stand the other way round, and so do their partners.
    match = np.array([[0, 1], [1, 0], [0, 1], [1, 0]])
    partner = np.array([[-1, -1], [-1, -1], [2, 0], [3, 1]])
    assert matching_success(partner, match, IMAGES, PASSES)[2:].tolist() == [[1, 1], [1, 1]]
    assert matching_success(partner, IN_ORDER, IMAGES, PASSES)[2:].tolist() == [[0, 1], [0, 0]]


def test_an_image_that_no_candidate_is_was_not_recognised() -> None:
    match = IN_ORDER.copy()
    match[2, 0], match[0, 1] = -1, -1
    assert matching_success(RIGHT, match, IMAGES, PASSES)[2:].tolist() == [[0, 1], [0, 1]]


def test_candidates_beyond_a_small_clients_images_do_not_shift_the_numbers() -> None:
    images, passes = np.array([[4], [5], [5], [4]]), PASSES
    partner = np.array([[-1, -1, -1], [-1, -1, -1], [3, -1, -1], [0, -1, -1]])
    found = matching_success(partner, np.zeros((4, 1), int), images, passes)
    assert found[2:].tolist() == [[1], [1]]


def test_each_way_of_matching_is_a_metric_that_needs_no_images() -> None:
    for way in ("", "_no_labels", "_no_pooling", "_plain"):
        assert METRICS[f"matching_success{way}"].of == "updates"
