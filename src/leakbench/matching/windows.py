"""Windows: what a convolution reads at each of its places, with the channels last, where a row of one is a
run of memory."""

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import _pair

# Images with fewer channels than this: a window's row is too short a run.
FEW = 4


def places(layer: nn.Conv2d | nn.MaxPool2d, rows: int, columns: int) -> tuple[int, int]:
    """Return how many places a convolution, or a pool, has down and across images of this size."""
    high, long = (
        (size + 2 * pad - spread * (window - 1) - 1) // step + 1
        for size, pad, spread, window, step in zip(
            (rows, columns),
            *(_pair(value) for value in (layer.padding, layer.dilation, layer.kernel_size, layer.stride)),
            strict=True,
        )
    )
    return high, long


def _windows(padded: Tensor, conv: nn.Conv2d) -> Tensor:
    """Return a view: padded images [n, rows, columns, channels] → [n, high, long, tall, wide, channels]."""
    assert not isinstance(conv.padding, str)
    n, rows, columns, channels = padded.shape
    line = columns * channels
    high, long = places(conv, rows - 2 * conv.padding[0], columns - 2 * conv.padding[1])
    steps = rows * line, conv.stride[0] * line, conv.stride[1] * channels
    return padded.as_strided(
        (n, high, long, *conv.kernel_size, channels),
        (*steps, conv.dilation[0] * line, conv.dilation[1] * channels, 1),
    )


def unfold(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """Return what a convolution reads of x [n, channels, rows, columns]: [n, places, tall·wide·channels].

    In memory a window is a run, or of images with few channels (FEW) what all places read through one tap is.
    """
    assert not isinstance(conv.padding, str)
    down, across = conv.padding
    if x.shape[1] < FEW:
        padded = nn.functional.pad(x, (across, across, down, down)).contiguous()
        n, channels, rows, columns = padded.stride()
        taps = padded.as_strided(
            (len(x), *conv.kernel_size, x.shape[1], *places(conv, *x.shape[2:])),
            (
                n,
                conv.dilation[0] * rows,
                conv.dilation[1] * columns,
                channels,
                conv.stride[0] * rows,
                conv.stride[1] * columns,
            ),
        )
        return taps.flatten(4).flatten(1, 3).mT
    padded = nn.functional.pad(x.permute(0, 2, 3, 1), (0, 0, across, across, down, down)).contiguous()
    return _windows(padded, conv).flatten(3).flatten(1, 2)


def fold(read: Tensor, shape: torch.Size, conv: nn.Conv2d) -> Tensor:
    """Return images [n, channels, rows, columns] (`shape`): for each pixel the sum of what was read of it.

    The adjoint of `unfold`: each row of the windows is added up across, then the rows down.
    """
    if not read.is_contiguous():
        return _fold_taps(read.mT, shape, conv)
    assert not isinstance(conv.padding, str)
    n, channels, rows, columns = shape
    down, across = conv.padding
    tall, wide = conv.kernel_size
    padded = read.new_zeros(n, rows + 2 * down, columns + 2 * across, channels)
    high, long = places(conv, rows, columns)
    line = padded.shape[2] * channels
    lines = read.new_zeros(n, high, tall, line)
    into = lines.as_strided(
        (n, high, long, tall, wide, channels),
        (high * tall * line, tall * line, conv.stride[1] * channels, line, conv.dilation[1] * channels, 1),
    )
    _add(into, read.view(into.shape), conv, 1)
    into = padded.as_strided(
        lines.shape, (padded.shape[1] * line, conv.stride[0] * line, conv.dilation[0] * line, 1)
    )
    _add(into, lines, conv, 0)
    whole = padded[:, down : down + rows, across : across + columns]
    return whole.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


def _fold_taps(taps: Tensor, shape: torch.Size, conv: nn.Conv2d) -> Tensor:
    """Return what `fold` does of taps [n, tall·wide·channels, places]."""
    assert not isinstance(conv.padding, str)
    n, channels, rows, columns = shape
    (down, across), (tall, wide) = conv.padding, conv.kernel_size
    high, long = places(conv, rows, columns)
    each = taps.reshape(n, tall, wide, channels, high, long)
    lines = taps.new_zeros(n, tall, channels, high, columns + 2 * across)
    for tap in range(wide):
        lines[..., _line(tap, long, conv, 1)] += each[:, :, tap]
    padded = taps.new_zeros(n, channels, rows + 2 * down, lines.shape[-1])
    for tap in range(tall):
        padded[:, :, _line(tap, high, conv, 0)] += lines[:, tap]
    return padded[:, :, down : down + rows, across : across + columns].contiguous()


def _line(tap: int, count: int, conv: nn.Conv2d, way: int) -> slice:
    """Return which pixels `count` places read through a tap: down (0) or across (1)."""
    first, step = tap * conv.dilation[way], conv.stride[way]
    return slice(first, first + (count - 1) * step + 1, step)


def _add(into: Tensor, windows: Tensor, conv: nn.Conv2d, way: int) -> None:
    """Add windows to the views of where they overlap, those together that do not: down (0) or across (1)."""
    reach = conv.dilation[way] * (conv.kernel_size[way] - 1) + 1
    apart = -(-reach // conv.stride[way])
    for i in range(apart):
        each = (slice(None),) * (1 + way) + (slice(i, None, apart),)
        # Not `+=`, which would write the sum back over itself.
        into[each].add_(windows[each])
