"""Windows: what a convolution reads at each of its places, with the channels last, where a row of one is a run of memory."""

import torch
from torch import Tensor, nn


def _windows(padded: Tensor, conv: nn.Conv2d) -> Tensor:
    """Return a view: padded images [n, rows, columns, channels] → [n, high, long, tall, wide, channels]."""
    n, rows, columns, channels = padded.shape
    line = columns * channels
    high, long = (
        (size - spread * (window - 1) - 1) // step + 1
        for size, spread, window, step in zip(
            (rows, columns), conv.dilation, conv.kernel_size, conv.stride, strict=True
        )
    )
    places = rows * line, conv.stride[0] * line, conv.stride[1] * channels
    return padded.as_strided(
        (n, high, long, *conv.kernel_size, channels),
        (*places, conv.dilation[0] * line, conv.dilation[1] * channels, 1),
    )


def unfold(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """Return what a convolution reads of x [n, channels, rows, columns]: [n, places, tall·wide·channels]."""
    assert not isinstance(conv.padding, str)
    down, across = conv.padding
    padded = nn.functional.pad(x.permute(0, 2, 3, 1), (0, 0, across, across, down, down)).contiguous()
    return _windows(padded, conv).flatten(3).flatten(1, 2)


def fold(read: Tensor, shape: torch.Size, conv: nn.Conv2d) -> Tensor:
    """Return images [n, channels, rows, columns] (`shape`): for each pixel the sum of what was read of it.

    The adjoint of `unfold`: each row of the windows is added up across, then the rows down.
    """
    assert not isinstance(conv.padding, str)
    n, channels, rows, columns = shape
    down, across = conv.padding
    tall, wide = conv.kernel_size
    padded = read.new_zeros(n, rows + 2 * down, columns + 2 * across, channels)
    high, long = _windows(padded, conv).shape[1:3]
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


def _add(into: Tensor, windows: Tensor, conv: nn.Conv2d, way: int) -> None:
    """Add windows to the views of where they overlap, those together that do not: down (0) or across (1)."""
    reach = conv.dilation[way] * (conv.kernel_size[way] - 1) + 1
    apart = -(-reach // conv.stride[way])
    for i in range(apart):
        each = (slice(None),) * (1 + way) + (slice(i, None, apart),)
        # Not `+=`, which would write the sum back over itself.
        into[each].add_(windows[each])
