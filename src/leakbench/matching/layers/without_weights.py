"""Layers without parameters, in a chain."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leakbench.matching.layers.rule import Kept, Link
from leakbench.tensors import Tensors

aten = torch.ops.aten


def _linear_map(forward: Callable[..., tuple[Tensor, Kept]], backward: Callable[..., Tensor]) -> Link:
    """Return the rule of a layer without parameters whose rates go the way of its values."""
    return Link(
        forward,
        backward,
        lambda layer, kept, read, rate, own: forward(layer, rate, 0)[0],
        lambda layer, kept, read, slope, moved, rate, own: backward(layer, kept, read, rate),
    )


def _activation(
    function: Callable[[Tensor], Tensor],
    times_slope: Callable[[Tensor, Tensor], Tensor],
    curvature: Callable[[Tensor], Tensor] | None,
) -> Link:
    """Return the rule of y = function(x): times_slope(t, y) = t·y'; curvature(y) = y''/y', None: nothing."""

    def back(
        layer: nn.Module, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
        own: Tensors
    ) -> Tensor:  # fmt: skip
        (y,) = kept
        found = times_slope(rate, y)
        if moved is None or curvature is None:
            return found
        return found.addcmul_(times_slope(slope, y).mul_(moved), curvature(y))

    def forward(layer: nn.Module, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
        y = function(x)
        return y, (y,)

    return Link(
        forward,
        lambda layer, kept, read, slope: times_slope(slope, kept[0]),
        lambda layer, kept, read, rate, own: times_slope(rate, kept[0]),
        back,
    )


def _pool_forward(pool: nn.MaxPool2d, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    found, chosen = nn.functional.max_pool2d(
        x, pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode, True
    )
    return found, (chosen,)


def _pool_backward(pool: nn.MaxPool2d, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    (chosen,) = kept
    flat = slope.new_zeros(*read[:2], read[2] * read[3])
    return flat.scatter_add_(2, chosen.flatten(2), slope.flatten(2)).view(read)


def _pool_rate(pool: nn.MaxPool2d, kept: Kept, read: torch.Size, rate: Tensor, own: Tensors) -> Tensor:
    (chosen,) = kept
    return rate.flatten(2).gather(2, chosen.flatten(2)).view(chosen.shape)


SIGMOID = _activation(torch.sigmoid, aten.sigmoid_backward, lambda y: 1 - 2 * y)
TANH = _activation(torch.tanh, aten.tanh_backward, lambda y: -2 * y)
RELU = _activation(torch.relu, lambda slope, y: aten.threshold_backward(slope, y, 0), None)
MAX_POOL = Link(
    _pool_forward,
    _pool_backward,
    _pool_rate,
    lambda pool, kept, read, slope, moved, rate, own: _pool_backward(pool, kept, read, rate),
)
FLATTEN = _linear_map(
    lambda layer, x, trials: (x.flatten(1), ()), lambda layer, kept, read, slope: slope.reshape(read)
)
DROPOUT = _linear_map(
    lambda layer, x, trials: (x * layer.keep, ()), lambda layer, kept, read, slope: slope * layer.keep
)
IDENTITY = _linear_map(lambda layer, x, trials: (x, ()), lambda layer, kept, read, slope: slope)
