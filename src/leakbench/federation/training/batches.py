"""From stored images to what a network trains on: scaled to size, varied, and in [0, 1]."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from leakbench.base.pixels import pixels

PADDING = 4


def to_size(images: Tensor, size: int | None) -> Tensor:
    """Return images as float [n, channels, rows, columns] in [0, 1], scaled to `size` if it is given."""
    x = pixels(images)
    if size is None or x.shape[-2:] == (size, size):
        return x
    return interpolate(x, (size, size), mode="bilinear", align_corners=False)


def flip_crop(x: Tensor, rng: torch.Generator) -> Tensor:
    """Return images, each mirrored with probability one half and moved by up to four pixels each way."""
    n, channels, rows, columns = x.shape
    flipped = torch.rand(n, generator=rng) < 0.5
    down, right = torch.randint(2 * PADDING + 1, (2, n, 1), generator=rng)
    across = torch.arange(columns).expand(n, -1)
    across = torch.where(flipped[:, None], across.flip(1), across) + right
    along = torch.arange(rows) + down
    place = [
        torch.arange(n)[:, None, None, None],
        torch.arange(channels)[:, None, None],
        along[:, None, :, None],
        across[:, None, None, :],
    ]
    return pad(x, [PADDING] * 4)[tuple(index.to(x.device) for index in place)]


AUGMENTATIONS = {"none": lambda x, rng: x, "flip-crop": flip_crop}
