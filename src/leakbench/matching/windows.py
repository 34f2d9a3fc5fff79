"""Windows: what a convolution reads at each of its places, with the channels last, where a row of one is a run of memory."""

import itertools

import torch
from torch import Tensor, nn


def _windows(
    padded: Tensor, conv: nn.Conv2d, begin: tuple[int, int] = (0, 0), every: tuple[int, int] = (1, 1)
) -> Tensor:
    """Return a view of the windows that a convolution reads of padded images: [n, rows, columns, channels] → [n, high,
    long, tall, wide, channels]; those from place `begin` on, one of `every` so many down and across.
    """
    n, rows, columns, channels = padded.shape
    line = columns * channels
    places = [
        (size - spread * (window - 1) - 1) // step + 1
        for size, spread, window, step in zip(
            (rows, columns), conv.dilation, conv.kernel_size, conv.stride, strict=True
        )
    ]
    down, across = conv.stride[0] * line, conv.stride[1] * channels
    return padded.as_strided(
        (
            n,
            *(-(-(p - b) // e) for p, b, e in zip(places, begin, every, strict=True)),
            *conv.kernel_size,
            channels,
        ),
        (
            rows * line,
            every[0] * down,
            every[1] * across,
            conv.dilation[0] * line,
            conv.dilation[1] * channels,
            1,
        ),
        begin[0] * down + begin[1] * across,
    )


def unfold(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """Return what a convolution reads of x [n, channels, rows, columns]: [n, places, tall·wide·channels]."""
    assert not isinstance(conv.padding, str)
    down, across = conv.padding
    padded = nn.functional.pad(x.permute(0, 2, 3, 1), (0, 0, across, across, down, down)).contiguous()
    windows = _windows(padded, conv)
    return windows.reshape(len(x), windows.shape[1] * windows.shape[2], -1)


def fold(read: Tensor, shape: torch.Size, conv: nn.Conv2d) -> Tensor:
    """Return the images [n, channels, rows, columns] (`shape`) that sum up what was read of each pixel: unfold's adjoint.

    Windows that do not overlap are added together, each row of a window as one run of memory.
    """
    assert not isinstance(conv.padding, str)
    n, channels, rows, columns = shape
    down, across = conv.padding
    padded = read.new_zeros(n, rows + 2 * down, columns + 2 * across, channels)
    every = tuple(
        -(-(spread * (window - 1) + 1) // step)
        for spread, window, step in zip(conv.dilation, conv.kernel_size, conv.stride, strict=True)
    )
    windows = read.view_as(_windows(padded, conv))
    for begin in itertools.product(*map(range, every)):
        _windows(padded, conv, begin, every).add_(windows[:, begin[0] :: every[0], begin[1] :: every[1]])
    whole = padded[:, down : down + rows, across : across + columns]
    return whole.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
