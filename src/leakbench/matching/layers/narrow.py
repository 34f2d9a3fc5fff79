"""Convolutions of fewer channels than a vector register holds, for many trials at once.

A convolution of groups takes as long for 12 channels of each trial as for 24, so that two sums of one output
are best taken as one: what the first reads and what the second reads lie beside each other as channels.

The transpose of a convolution of stride s writes each pixel from every s-th tap alone. So it is a convolution
of smaller kernels that makes s·s pixels at a place, as channels, which then change places (the sub-pixel
convolution of Shi et al. 2016, the other way). Onto three channels it is twice as fast.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

# Numbers of float32 in a register of 512 bits, and in half of one.
NARROW, NARROWEST = 16, 8
_MADE: WeakKeyDictionary[nn.Conv2d, dict[str, tuple[Tensor, Any, Tensor]]] = WeakKeyDictionary()


def once(conv: nn.Conv2d, name: str, trials: int, make: Callable[[], Tensor]) -> Tensor:
    """Return what `make` makes of a narrow convolution's weights, made again where they have changed."""
    if max(conv.in_channels, conv.out_channels) > NARROW:
        # Large weights, for all trials, would take the memory of everything else.
        return make()
    known, key = _MADE.setdefault(conv, {}), (trials, conv.weight._version)
    if name not in known or known[name][0] is not conv.weight or known[name][1] != key:
        known[name] = conv.weight, key, make()
    return known[name][2]


def _joined(a: Tensor, b: Tensor, axis: int, trials: int) -> Tensor:
    """Return two tensors, channels last, as one that has each trial's part of a before that of b."""
    each = [value.permute(0, 2, 3, 1).unflatten(axis, (trials, -1)) for value in (a, b)]
    return torch.cat(each, axis + 1).flatten(axis, axis + 1).permute(0, 3, 1, 2)


def beside(a: Tensor, b: Tensor, trials: int) -> Tensor:
    """Return images beside each other: twice [n, trials·channels, rows, columns] → [n, trials·2·channels,
    rows, columns]."""
    return _joined(a, b, 3, trials)


def reading_both(a: Tensor, b: Tensor) -> Tensor:
    """Return the weights of two convolutions as one that reads `beside` and makes the sum: twice [trials·out,
    in, rows, columns] → [trials·out, 2·in, rows, columns]."""
    return _joined(a, b, 3, 1)


def making_both(a: Tensor, b: Tensor, trials: int) -> Tensor:
    """Return the weights of two convolutions as one whose transpose reads `beside` and makes the sum: twice
    [trials·out, in, rows, columns] → [trials·2·out, in, rows, columns]."""
    return _joined(a, b, 0, trials)


def _axes(conv: nn.Conv2d) -> list[tuple[int, int, int]]:
    """Return kernel, stride and padding of rows and of columns."""
    assert not isinstance(conv.padding, str)
    return list(zip(conv.kernel_size, conv.stride, conv.padding, strict=True))


def _margins(conv: nn.Conv2d) -> list[int]:
    """Return the padding of the transpose, of rows and of columns."""
    return [-(-k // s) - 1 - p // s for k, s, p in _axes(conv)]


def turns(conv: nn.Conv2d, read: Sequence[int], returned: Sequence[int], below: int = NARROW) -> bool:
    """Return whether `turned` is of use for what was read and returned, [n, channels, rows, columns] each.

    below: the channels read from which on it is not. With weights that change it pays for fewer of them.
    """
    if conv.in_channels >= below or conv.stride == (1, 1) or conv.dilation != (1, 1):
        return False
    sizes = zip(_axes(conv), _margins(conv), read[2:], returned[2:], strict=True)
    # Places that the transpose makes, against those that hold all that was read.
    return all(
        p % s == 0 and margin >= 0 and out + 2 * margin + 1 - -(-k // s) >= -(-size // s)
        for (k, s, p), margin, size, out in sizes
    )


@lru_cache(maxsize=64)
def _places(
    shape: tuple[int, int, int, int], stride: tuple[int, int], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return where each number of a turned weight stands in one of `shape`, [out, in, rows, columns] channels
    last, and which are none of its."""
    out, channels, rows, columns = shape
    small = [-(-k // s) for k, s in zip((rows, columns), stride, strict=True)]
    order = torch.full((out, small[0] * stride[0], small[1] * stride[1], channels), -1)
    order[:, :rows, :columns] = torch.arange(out * rows * columns * channels).view(
        out, rows, columns, channels
    )
    taps = order.view(out, small[0], stride[0], small[1], stride[1], channels).flip(1, 3)
    found = taps.permute(2, 4, 5, 1, 3, 0).flatten().to(device)
    return found.clamp_min(0), found < 0


def turned(conv: nn.Conv2d, weight: Tensor, trials: int) -> Tensor:
    """Return the weights of the transpose, as a convolution of `trials` groups that reads what came out.

    weight [trials·out, in, rows, columns], channels last; returned [trials·s·s·in, out, …], channels last.
    """
    places, none = _places((conv.out_channels, *weight.shape[1:]), conv.stride, weight.device)
    found = weight.permute(0, 2, 3, 1).reshape(trials, -1).index_select(1, places).masked_fill_(none, 0)
    small = [-(-k // s) for k, s, _ in _axes(conv)]
    return found.view(-1, *small, conv.out_channels).permute(0, 3, 1, 2)


def transposed(conv: nn.Conv2d, slope: Tensor, weight: Tensor, read: Sequence[int], trials: int) -> Tensor:
    """Return a convolution's transpose, of shape `read`, of what came out, by `turned` weights."""
    found = conv2d(slope, weight, None, 1, _margins(conv), 1, trials)
    n, channels, rows, columns = read
    (s, t), (down, across) = (
        conv.stride,
        (-(-size // s) for size, s in zip(read[2:], conv.stride, strict=True)),
    )
    each = found[:, :, :down, :across].permute(0, 2, 3, 1).unflatten(3, (trials, s, t, -1))
    pixels = each.permute(0, 1, 4, 2, 5, 3, 6).reshape(n, down * s, across * t, channels)
    return pixels[:, :rows, :columns].permute(0, 3, 1, 2)
