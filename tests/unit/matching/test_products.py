"""Products by oneDNN are those of torch, whichever way a matrix lies in memory."""

import pytest
import torch
from torch import Tensor

from leakbench.attacks.matching.engines import products
from leakbench.attacks.matching.engines.products import WORTH, product


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of what oneDNN was given."""
    shapes: list[tuple[int, ...]] = []
    linear = products._linear

    def counted(a: Tensor, b: Tensor) -> Tensor:
        shapes.append((*a.shape, b.shape[1]))
        return linear(a, b)

    monkeypatch.setattr(products, "_linear", counted)
    return shapes


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
@pytest.mark.parametrize(("across", "down"), [(False, False), (True, False), (False, True), (True, True)])
def test_large_products_are_onednns(called: list[tuple[int, ...]], across: bool, down: bool) -> None:
    torch.manual_seed(0)
    a = torch.randn(3, 170, 180).mT if across else torch.randn(3, 180, 170)
    b = torch.randn(3, 190, 170).mT if down else torch.randn(3, 170, 190)
    torch.testing.assert_close(product(a, b), a @ b)
    torch.testing.assert_close(product(a[0], b[0]), a[0] @ b[0])
    assert called == [(180, 170, 190)] * 4


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_other_precisions_are_torchs(called: list[tuple[int, ...]], kind: torch.dtype) -> None:
    a, b = torch.ones(170, 180, dtype=kind), torch.ones(180, 190, dtype=kind)
    assert torch.equal(product(a, b), a @ b)
    assert called == []


def test_small_products_are_torchs(called: list[tuple[int, ...]]) -> None:
    side = int(WORTH ** (1 / 3)) - 1
    a, b = torch.ones(2, side, side), torch.ones(2, side, side)
    assert torch.equal(product(a, b), a @ b)
    assert called == []
