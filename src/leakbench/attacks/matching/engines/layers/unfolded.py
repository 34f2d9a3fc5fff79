"""Convolutions of one small image, as matrix products with its windows.

For a single image of few pixels, torch uses its own unfolding and MKL. Here windows are copies of an image
whose channels lie next to each other, and the products are oneDNN's: 0.40 instead of 0.80 ms for 256 channels
on 8×8 pixels (a core of an AMD EPYC with AVX-512). Images are [1, channels, rows, columns], weights [out, in,
rows, columns], both channels last.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.layers.narrow import padding
from leakbench.attacks.matching.engines.products import WORTH, product

# torch's own limits for this case: the most numbers in an image, and the largest window without dilation.
SMALL, WINDOW = 20480, 3


def pays(conv: nn.Conv2d, x: Tensor) -> bool:
    """Return whether a convolution of images x, and its derivatives, are faster as products with windows."""
    if x.shape[0] > 1 or x.numel() > SMALL or x.device.type != "cpu" or x.dtype != torch.float32:
        return False
    if conv.dilation != (1, 1) or max(conv.kernel_size) > WINDOW:
        return False
    return math.prod(_returned(conv, x.shape)) * conv.weight.numel() >= WORTH


def _returned(conv: nn.Conv2d, read: Sequence[int]) -> list[int]:
    """Return the rows and columns of the convolution's output."""
    axes = zip(read[2:], conv.kernel_size, conv.stride, padding(conv), strict=True)
    return [(size + 2 * p - k) // s + 1 for size, k, s, p in axes]


def _places(conv: nn.Conv2d, read: Sequence[int]) -> list[tuple[slice, slice]]:
    """Return for each tap of the kernel which rows and columns of the padded image it reads."""
    spans = [
        [slice(tap, tap + stride * (count - 1) + 1, stride) for tap in range(size)]
        for size, stride, count in zip(conv.kernel_size, conv.stride, _returned(conv, read), strict=True)
    ]
    return [(down, across) for down in spans[0] for across in spans[1]]


def _windows(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """Return the windows of an image, [places, taps·in]."""
    down, across = padding(conv)
    padded = nn.functional.pad(x.permute(0, 2, 3, 1), (0, 0, across, across, down, down))
    return torch.cat([padded[:, i, j] for i, j in _places(conv, x.shape)], 3).flatten(0, 2)


def _matrix(weight: Tensor) -> Tensor:
    """Return weights as a matrix, [out, taps·in]."""
    return weight.permute(0, 2, 3, 1).flatten(1)


def _pixels(image: Tensor) -> Tensor:
    """Return an image as a matrix, [places, channels]."""
    return image.permute(0, 2, 3, 1).flatten(0, 2)


def convolved(conv: nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found = product(_windows(conv, x), _matrix(weight).T)
    if bias is not None:
        found += bias
    return found.view(1, *_returned(conv, x.shape), -1).permute(0, 3, 1, 2)


def transposed(conv: nn.Conv2d, slope: Tensor, weight: Tensor, read: Sequence[int]) -> Tensor:
    """Return the transpose of a convolution: from the slope at its output to the slope at its input."""
    (down, across), (height, width) = padding(conv), read[2:]
    taps = product(_pixels(slope), _matrix(weight)).view(1, *slope.shape[2:], -1, read[1])
    padded = slope.new_zeros(1, height + 2 * down, width + 2 * across, read[1])
    for tap, (i, j) in enumerate(_places(conv, read)):
        padded[:, i, j] += taps[:, :, :, tap]
    return padded[:, down : down + height, across : across + width].permute(0, 3, 1, 2)


def weight_gradient(conv: nn.Conv2d, slope: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of the weights, [out, in, rows, columns]."""
    found = product(_pixels(slope).T, _windows(conv, x))
    return found.view(len(found), *conv.kernel_size, -1).permute(0, 3, 1, 2)
