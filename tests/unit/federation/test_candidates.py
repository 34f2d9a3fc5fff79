"""The images that a server holds: the private ones and others, in an order that tells nothing."""

from typing import Any

import numpy as np
import pytest

from leakbench.base.errors import Unfit
from leakbench.federation import Truth, candidates

FEDERATION: dict[str, Any] = {"private": {"split": "test", "start": 10, "stop": 60}, "candidates": 30}
PRIVATE = Truth([np.array([[10, 11], [12, 13]]), np.array([[11], [59]])], [])


def held(**changes: Any) -> np.ndarray:
    return candidates(FEDERATION | changes, PRIVATE, 100, ("set", "federation", 0, "salt"))


def test_private_images_are_among_them_once_and_others_are_of_the_private_range() -> None:
    found = held()
    assert len(found) == len(set(found)) == 30 + 5
    assert set(found) >= {10, 11, 12, 13, 59}
    assert set(found) <= set(range(10, 60))


def test_the_order_is_by_chance_and_repeats() -> None:
    found = held()
    np.testing.assert_array_equal(found, held())
    places = np.flatnonzero(np.isin(found, [10, 11, 12, 13, 59]))
    assert places.max() - places.min() > 5
    other = candidates(FEDERATION, PRIVATE, 100, ("set", "federation", 1, "salt"))
    assert not np.array_equal(found, other)


def test_without_the_key_there_are_none() -> None:
    federation = {"private": FEDERATION["private"]}
    assert len(candidates(federation, PRIVATE, 100, ("set",))) == 0


def test_too_few_images_are_refused() -> None:
    with pytest.raises(Unfit, match="has 45 images beside the private ones, the federation needs 46"):
        held(candidates=46)
    with pytest.raises(Unfit, match="has 6 images"):
        candidates(FEDERATION, PRIVATE, 20, ("set",))
