"""The links of layers without parameters in a chain."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.layers.rule import Kept, Link
from leakbench.base.tensors import Tensors
from leakbench.networks.layers import Dropout, Normalise

aten = torch.ops.aten


def _linear_map(forward: Callable[..., tuple[Tensor, Kept]], backward: Callable[..., Tensor]) -> Link:
    """Return the link of a linear layer without parameters, whose rates pass as its values do."""
    return Link(
        forward,
        backward,
        lambda layer, kept, read, rate, own, trials: forward(layer, rate, trials)[0],
        lambda layer, kept, read, slope, moved, rate, own: backward(layer, kept, read, rate),
    )


def _activation(
    function: Callable[[Tensor], Tensor],
    times_slope: Callable[[Tensor, Tensor], Tensor],
    curvature: Callable[[Tensor, Tensor], Tensor] | None,
) -> Link:
    """Return the link of y = function(x); its slope moves by y' times `rate` plus slope · moved · y''/y'."""

    def back(
        layer: nn.Module, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
        own: Tensors
    ) -> Tensor:  # fmt: skip
        (y,) = kept
        if moved is None or curvature is None:
            return times_slope(rate, y)
        return times_slope(curvature(slope * moved, y).add_(rate), y)

    def forward(layer: nn.Module, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
        y = function(x)
        return y, (y,)

    return Link(
        forward,
        lambda layer, kept, read, slope: times_slope(slope, kept[0]),
        lambda layer, kept, read, rate, own, trials: times_slope(rate, kept[0]),
        back,
        kinked=curvature is None,
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


def _pool_rate(
    pool: nn.MaxPool2d, kept: Kept, read: torch.Size, rate: Tensor, own: Tensors, trials: int
) -> Tensor:
    (chosen,) = kept
    return rate.flatten(2).gather(2, chosen.flatten(2)).view(chosen.shape)


SIGMOID = _activation(torch.sigmoid, aten.sigmoid_backward, lambda t, y: t.addcmul_(t, y, value=-2))
TANH = _activation(torch.tanh, aten.tanh_backward, lambda t, y: (t * y).mul_(-2))
RELU = _activation(torch.relu, lambda slope, y: aten.threshold_backward(slope, y, 0), None)
MAX_POOL = Link(
    _pool_forward,
    _pool_backward,
    _pool_rate,
    lambda pool, kept, read, slope, moved, rate, own: _pool_backward(pool, kept, read, rate),
    kinked=True,
)


def _flattened(layer: nn.Module, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    if x.dim() == 3:
        return x, ()
    return x.unflatten(1, (trials, -1)).transpose(0, 1).flatten(2), ()


def _beside(layer: nn.Module, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    if len(read) == 3:
        return slope
    each = slope.transpose(0, 1).reshape(read[0], -1, *read[2:])
    return each.contiguous(memory_format=torch.channels_last)


def _spread(pool: nn.AdaptiveAvgPool2d, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    size = read[2] * read[3]
    return (slope / size).expand(read).contiguous(memory_format=torch.channels_last)


def _kept(layer: Dropout, value: Tensor) -> Tensor:
    return value * (layer.keep.view_as(value) if layer.keep.dim() else layer.keep)


def _scaled(layer: Normalise, value: Tensor) -> Tensor:
    return value / layer.deviation.repeat(value.shape[1] // len(layer.deviation), 1, 1)


FLATTEN = _linear_map(_flattened, _beside)
MEAN_POOL = _linear_map(lambda pool, x, trials: (x.mean((2, 3), keepdim=True), ()), _spread)
DROPOUT = _linear_map(
    lambda layer, x, trials: (_kept(layer, x), ()), lambda layer, kept, read, slope: _kept(layer, slope)
)
IDENTITY = _linear_map(lambda layer, x, trials: (x, ()), lambda layer, kept, read, slope: slope)
NORMALISE = Link(
    lambda layer, x, trials: (_scaled(layer, x - layer.mean.repeat(trials, 1, 1)), ()),
    lambda layer, kept, read, slope: _scaled(layer, slope),
    lambda layer, kept, read, rate, own, trials: _scaled(layer, rate),
    lambda layer, kept, read, slope, moved, rate, own: _scaled(layer, rate),
)
