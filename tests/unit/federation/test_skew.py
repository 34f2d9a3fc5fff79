"""Updates in which a few classes have most of the samples."""

from functools import partial

import numpy as np
import pytest
from federations import LABELS, federation
from pydantic import ValidationError

from leakbench.catalogue.schema import Federation
from leakbench.federation import private_samples

drawn = partial(federation, clients=[6], rounds=300)


def largest(**settings: float) -> float:
    """Return the mean share of an update's most frequent class."""
    truth = private_samples(drawn(**settings), LABELS, ("made", "federation", 0))
    (images,), (labels,) = truth.images, truth.labels
    assert images.min() >= 20
    assert images.max() < 50
    assert np.array_equal(labels, LABELS[images])
    assert all(len(set(row)) == 6 for row in images.tolist())
    return float(np.mean([np.bincount(row).max() / 6 for row in labels]))


def test_a_small_concentration_skews_the_classes_and_a_large_one_does_not() -> None:
    even = largest()
    assert largest(alpha=0.1) > even + 0.3
    assert abs(largest(alpha=1000.0) - even) < 0.05


def test_what_cannot_be_skewed_is_refused() -> None:
    for more in ({"distinct_labels": True}, {"passes": 2}):
        with pytest.raises(ValidationError, match="alpha"):
            Federation.model_validate(
                {"summary": "", "clients": [4], "rounds": 2, "alpha": 0.1, "local": {"lr": 0.1}}
                | {"private": {"split": "test", "stop": 9}}
                | more
            )
