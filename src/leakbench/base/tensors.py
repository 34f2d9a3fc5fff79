"""Tensors by their names, as a network's state holds them, and one number for each of their rows."""

from torch import Tensor

Tensors = dict[str, Tensor]


def over(each: Tensor, values: Tensor) -> Tensor:
    """Return one number for each row, [n], in a shape that multiplies `values` [n, …]."""
    return each.view(-1, *[1] * (values.dim() - 1))
