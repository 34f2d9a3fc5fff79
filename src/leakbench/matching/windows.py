"""Windows: what a convolution reads at each of its places, with the channels last, where a row of one is a run of memory."""

import itertools

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

    The adjoint of `unfold`. Windows that do not overlap are added together, each row of one as a run of memory.
    """
    assert not isinstance(conv.padding, str)
    n, channels, rows, columns = shape
    down, across = conv.padding
    padded = read.new_zeros(n, rows + 2 * down, columns + 2 * across, channels)
    into = _windows(padded, conv)
    windows = read.view(into.shape)
    far, wide = (
        -(-(spread * (window - 1) + 1) // step)
        for spread, window, step in zip(conv.dilation, conv.kernel_size, conv.stride, strict=True)
    )
    for i, j in itertools.product(range(far), range(wide)):
        into[:, i::far, j::wide] += windows[:, i::far, j::wide]
    whole = padded[:, down : down + rows, across : across + columns]
    return whole.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
