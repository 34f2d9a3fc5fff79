"""The span of the samples behind a gradient, and the search for sparse columns in it."""

import pytest
import torch
from torch import Tensor

from leakbench.attacks.exact import sparse
from leakbench.attacks.exact.span import span


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


def searched(columns: Tensor, share: float, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many columns [n, rank] the search finds, and how many directions it sharpens."""
    sharpened = sparse._sharpened
    calls: list[int] = []

    def counted(rows: sparse.Rows, q: Tensor, zero: float) -> tuple[int, Tensor]:
        calls.append(1)
        return sharpened(rows, q, zero)

    monkeypatch.setattr(sparse, "_sharpened", counted)
    basis = torch.linalg.svd(columns, full_matrices=False).U
    rng = torch.Generator().manual_seed(1)
    none = torch.zeros(0, columns.shape[1]).double()
    found = [q for _, q in sparse.directions(sparse.distinct(basis), 1e-8, share, 3, rng, none)]
    true = torch.nn.functional.normalize(basis.T @ columns, dim=0)
    assert found
    return int(((torch.stack(found) @ true).abs() > 1 - 1e-9).any(0).sum()), len(calls)


@pytest.mark.parametrize(("neurons", "samples"), [(80, 1), (80, 2), (80, 3), (80, 4), (400, 4), (200, 8)])
def test_every_column_is_found_and_one_that_many_draws_find_is_sharpened_once(
    neurons: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few samples many rows are parallel."""
    rng = torch.Generator().manual_seed(0)
    columns = torch.randn(neurons, samples, generator=rng).double().relu()
    found, sharpened = searched(columns, 0.25, monkeypatch)
    assert found == samples
    assert sharpened < 100


def test_one_sample_takes_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(torch.ones(1, 1).double(), 0.0, monkeypatch) == (1, 1)


def test_a_search_that_finds_nothing_ends_when_patience_does(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = []

    def nothing(rows: sparse.Rows, *_: object) -> Tensor:
        batches.append(1)
        return rows.unit[:0]

    monkeypatch.setattr(sparse, "_drawn", nothing)
    rows = sparse.distinct(torch.eye(9, 4, dtype=torch.float64))
    rng = torch.Generator()
    assert not list(sparse.directions(rows, 1e-9, 0.3, 60, rng, rows.unit[:0], "drawn", patience=5))
    assert len(batches) == 5
