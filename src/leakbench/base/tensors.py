"""Tensors by their names, as a network's state holds them."""

from torch import Tensor

Tensors = dict[str, Tensor]
