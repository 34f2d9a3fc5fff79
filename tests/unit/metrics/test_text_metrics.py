"""The metrics of text by hand."""

import numpy as np
import pytest

from leakbench.metrics import measure
from leakbench.metrics.text import agreement

NAMES = ["token_accuracy", "exact_sentence", "rouge_1", "rouge_2"]


def share(*rows: list[int]) -> np.ndarray:
    return (np.array(rows, np.float32) / 10)[:, None, None]


@pytest.mark.parametrize(
    ("guess", "expected"),
    [
        ([1, 2, 3, 4], (1.0, 1.0, 1.0, 1.0)),
        ([1, 2, 3, 5], (0.75, 0.0, 0.75, 2 / 3)),
        # The same tokens at other places; of the pairs 12, 23, 34 only 12 is there.
        ([4, 1, 2, 3], (0.0, 0.0, 1.0, 2 / 3)),
        ([2, 1, 4, 3], (0.0, 0.0, 1.0, 0.0)),
        # A token that is guessed twice counts once.
        ([1, 1, 1, 1], (0.25, 0.0, 0.25, 0.0)),
        ([9, 9, 9, 9], (0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_by_hand(guess: list[int], expected: tuple[float, ...]) -> None:
    found = measure(NAMES, share(guess), share([1, 2, 3, 4]), {"vocabulary": 10})
    assert [float(found[name][0]) for name in NAMES] == pytest.approx(expected)


def test_each_pair_agrees_in_its_share_of_tokens() -> None:
    guesses, truths = share([1, 2, 3, 4], [1, 2, 9, 9])[:, 0, 0], share([1, 2, 3, 4], [5, 5, 5, 4])[:, 0, 0]
    assert agreement(guesses, truths, 10).tolist() == [[1.0, 0.25], [0.5, 0.0]]
