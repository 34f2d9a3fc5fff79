"""The span of the samples behind a gradient, and what has none."""

import pytest
import torch

from leakbench.attacks.exact.span import span
from leakbench.base.errors import Unfit


def test_the_span_of_three_samples_is_theirs() -> None:
    rng = torch.Generator().manual_seed(0)
    samples = torch.randn(3, 40, generator=rng, dtype=torch.float64)
    found = span(torch.randn(30, 3, generator=rng, dtype=torch.float64) @ samples, 5)
    assert found is not None
    assert len(found.values) == 3
    # Each sample is the sum of its parts along the rows of the span.
    torch.testing.assert_close(samples @ found.right.T @ found.right, samples)


def test_a_gradient_of_nothing_and_a_layer_that_is_too_narrow_have_none() -> None:
    assert span(torch.zeros(30, 40), 5) is None
    assert span(torch.ones(5, 40), 5) is None


def test_numbers_whose_products_are_infinite_are_refused_in_one_line() -> None:
    with pytest.raises(Unfit, match="too large to be multiplied"):
        span(torch.full((30, 40), 3e38), 5)
