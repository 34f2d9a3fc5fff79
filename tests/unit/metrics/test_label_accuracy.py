"""Label accuracy against every permutation."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbench.metrics.labels import label_accuracy, labels_matched

labels = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@given(labels, labels)
def test_overlap_is_the_best_any_permutation_reaches(guesses: list[int], truths: list[int]) -> None:
    padded = guesses + [-1] * max(0, len(truths) - len(guesses))
    hits = max(sum(g == t for g, t in zip(order, truths, strict=False)) for order in permutations(padded))
    assert label_accuracy(np.array(guesses), np.array(truths)) == pytest.approx(hits / len(truths))


@given(st.permutations([0, 0, 1, 3, 3, 3]))
def test_order_is_immaterial(order: list[int]) -> None:
    assert label_accuracy(np.array(order), np.array([3, 0, 3, 1, 0, 3])) == 1.0


@given(labels, st.integers(0, 2**32 - 1))
def test_matched_labels_equal_a_loop_and_never_beat_the_overlap(truths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    guesses = rng.integers(0, 5, len(truths))
    index = rng.permutation(len(truths))
    index[rng.random(len(truths)) < 0.3] = -1
    expected = [i >= 0 and bool(guesses[i] == truth) for i, truth in zip(index, truths, strict=True)]
    assert labels_matched(guesses, np.array(truths), index).tolist() == expected
    assert np.mean(expected) <= label_accuracy(guesses, np.array(truths)) + 1e-12


def test_nothing_guessed_and_nothing_asked() -> None:
    nothing = np.array([], dtype=int)
    assert label_accuracy(nothing, np.array([1, 2])) == 0.0
    assert np.isnan(label_accuracy(np.array([1]), nothing))
    with pytest.raises(ValueError, match="2 labels but 1"):
        labels_matched(np.array([1]), np.array([1, 2]), np.array([0]))
