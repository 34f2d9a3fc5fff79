"""How the bench counts the operations of products and convolutions."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d

from bench.ceiling import flop, flop_of
from leakbench.attacks.matching.engines.products import product


@pytest.mark.parametrize(("wanted", "times"), [((True, False), 1), ((False, True), 1), ((True, True), 2)])
def test_derivatives_of_a_convolution_of_groups_by_hand(wanted: tuple[bool, bool], times: int) -> None:
    # Two images; five groups, each of 3 channels read and 4 made; kernels of 3×3; 6×8 places left of 8×10.
    x, weight, slope = torch.ones(2, 15, 8, 10), torch.ones(20, 3, 3, 3), torch.ones(2, 20, 6, 8)

    def run() -> None:
        torch.ops.aten.convolution_backward(
            slope, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 5, [*wanted, False]
        )

    assert flop(run) == times * 2 * (2 * 6 * 8) * (5 * 3 * 4) * (3 * 3)


def test_a_transposed_convolution_s_derivatives_take_what_it_takes() -> None:
    x, weight = torch.ones(1, 3, 5, 5, requires_grad=True), torch.ones(3, 4, 2, 2, requires_grad=True)

    def forward() -> Tensor:
        return torch.nn.functional.conv_transpose2d(x, weight, stride=2)

    one = 2 * (5 * 5) * (3 * 4) * (2 * 2)
    assert flop(forward) == one
    assert flop(lambda: forward().sum().backward()) == 3 * one


def test_a_group_counts_as_a_convolution_by_itself() -> None:
    x, weight = torch.ones(1, 4, 6, 6, requires_grad=True), torch.ones(8, 2, 3, 3, requires_grad=True)
    one = flop(lambda: conv2d(x[:, :2], weight[:4]).sum().backward())
    assert flop(lambda: conv2d(x, weight, groups=2).sum().backward()) == 2 * one == 2 * 3 * 2 * 16 * 8 * 9


def test_what_is_done_once_does_not_count() -> None:
    matrix = torch.ones(4, 5)

    def run(iterations: int) -> None:
        for _ in range(iterations + 3):
            matrix @ matrix.T

    assert flop_of(run, 2.0) == 2 * 4 * 5 * 4 / 2


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
def test_a_product_by_onednn_counts_as_torch_s_own() -> None:
    a, b = torch.ones(2, 180, 170), torch.ones(2, 170, 190)
    assert flop(lambda: product(a, b)) == flop(lambda: a @ b) == 2 * 2 * 180 * 170 * 190
