"""The transpose of a convolution of fewer channels than a vector register holds, for many trials at once.

In the transpose of a convolution with stride s, each pixel depends on every s-th tap of the kernel only. So
it is a convolution with smaller kernels that makes the s·s pixels of a place as channels, which are then put
in their places (the sub-pixel convolution of Shi et al. 2016, in the other direction). Onto three channels
this is twice as fast.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

# How many float32 numbers fit in a register of 512 bits, and in half of one.
NARROW, NARROWEST = 16, 8
_MADE: WeakKeyDictionary[nn.Conv2d, dict[str, tuple[Tensor, Any, Tensor]]] = WeakKeyDictionary()


def once(conv: nn.Conv2d, name: str, trials: int, make: Callable[[], Tensor]) -> Tensor:
    """Return what `make` makes of a convolution's weights, kept for the next call if the layer is narrow."""
    if max(conv.in_channels, conv.out_channels) > NARROW:
        # Large weights, kept for all trials, would take too much memory.
        return make()
    known, key = _MADE.setdefault(conv, {}), (trials, conv.weight._version)
    if name not in known or known[name][0] is not conv.weight or known[name][1] != key:
        known[name] = conv.weight, key, make()
    return known[name][2]


def padding(conv: nn.Conv2d) -> tuple[int, int]:
    """Return the padding of rows and of columns, where it is a number."""
    assert not isinstance(conv.padding, str)
    down, across = conv.padding
    return down, across


def _axes(conv: nn.Conv2d) -> list[tuple[int, int, int]]:
    """Return kernel size, stride and padding, of the rows and of the columns."""
    return list(zip(conv.kernel_size, conv.stride, padding(conv), strict=True))


def margins(conv: nn.Conv2d) -> list[int]:
    """Return the padding of the transpose as a convolution, of the rows and of the columns."""
    return [-(-k // s) - 1 - p // s for k, s, p in _axes(conv)]


def turns(conv: nn.Conv2d, read: Sequence[int], returned: Sequence[int], below: int = NARROW) -> bool:
    """Return whether the transpose of a convolution is computed faster with `turned` weights."""
    if conv.in_channels >= below or conv.stride == (1, 1) or conv.dilation != (1, 1):
        return False
    sizes = zip(_axes(conv), margins(conv), read[2:], returned[2:], strict=True)
    # The transpose must make at least as many places as hold all pixels that were read.
    return all(
        p % s == 0 and margin >= 0 and out + 2 * margin + 1 - -(-k // s) >= -(-size // s)
        for (k, s, p), margin, size, out in sizes
    )


@lru_cache(maxsize=64)
def _places(
    shape: tuple[int, int, int, int], stride: tuple[int, int], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return where each number of a turned weight stands in the weight, and which numbers stand nowhere."""
    out, channels, rows, columns = shape
    small = [-(-k // s) for k, s in zip((rows, columns), stride, strict=True)]
    order = torch.full((out, small[0] * stride[0], small[1] * stride[1], channels), -1)
    order[:, :rows, :columns] = torch.arange(out * rows * columns * channels).view(
        out, rows, columns, channels
    )
    taps = order.view(out, small[0], stride[0], small[1], stride[1], channels).flip(1, 3)
    found = taps.permute(2, 4, 5, 1, 3, 0).flatten(0, 2)
    empty = found.new_full((max(0, NARROW - len(found)), *found.shape[1:]), -1)
    found = torch.cat([found, empty]).flatten().to(device)
    return found.clamp_min(0), found < 0


def turned(conv: nn.Conv2d, weight: Tensor, trials: int) -> Tensor:
    """Return the weights of a convolution's transpose, as a convolution that reads what came out."""
    places, none = _places((conv.out_channels, *weight.shape[1:]), conv.stride, weight.device)
    found = weight.permute(0, 2, 3, 1).reshape(trials, -1).index_select(1, places).masked_fill_(none, 0)
    small = [-(-k // s) for k, s, _ in _axes(conv)]
    return found.view(-1, *small, conv.out_channels).permute(0, 3, 1, 2)


def transposed(conv: nn.Conv2d, slope: Tensor, weight: Tensor, read: Sequence[int], trials: int) -> Tensor:
    """Return the transpose of a convolution, computed with `turned` weights."""
    return placed(conv, conv2d(slope, weight, None, 1, margins(conv), 1, trials), read, trials)


def placed(conv: nn.Conv2d, found: Tensor, read: Sequence[int], trials: int) -> Tensor:
    """Put the pixels that `turned` weights made as channels in their places."""
    n, channels, rows, columns = read
    (s, t), (down, across) = (
        conv.stride,
        (-(-size // s) for size, s in zip(read[2:], conv.stride, strict=True)),
    )
    each = found[:, :, :down, :across].permute(0, 2, 3, 1).unflatten(3, (trials, -1))
    each = each[..., : s * t * channels // trials].unflatten(4, (s, t, -1))
    pixels = each.permute(0, 1, 4, 2, 5, 3, 6).reshape(n, down * s, across * t, channels)
    return pixels[:, :rows, :columns].permute(0, 3, 1, 2)
