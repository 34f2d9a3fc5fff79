"""The search for sparse columns: it finds them all, and does no work twice."""

import pytest
import torch
from torch import Tensor

from leakbench.attacks.exact import sparse


def searched(columns: Tensor, share: float, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Return how many of the columns [n, rank] the search finds when it knows their span alone, and how many
    directions it sharpened."""
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


@pytest.mark.parametrize(("neurons", "samples"), [(80, 4), (400, 4), (200, 8)])
def test_a_column_that_many_draws_find_is_sharpened_once(
    neurons: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = torch.Generator().manual_seed(0)
    columns = torch.randn(neurons, samples, generator=rng).double().relu()
    found, sharpened = searched(columns, 0.25, monkeypatch)
    assert found == samples
    assert sharpened < 100


def test_one_sample_takes_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(torch.ones(1, 1).double(), 0.0, monkeypatch) == (1, 1)


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_few_samples_are_found_though_many_rows_are_parallel(
    samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = torch.Generator().manual_seed(0)
    columns = torch.randn(80, samples, generator=rng).double().relu()
    found, _ = searched(columns, 0.25, monkeypatch)
    assert found == samples


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
