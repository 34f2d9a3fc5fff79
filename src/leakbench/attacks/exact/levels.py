"""Mean and deviation of a batch's pixels, read off the samples that were normalised by them."""

import torch
from torch import Tensor

# The steps between black and white of 8-bit pixels, and the share of one that a value may be off a level.
LEVELS, OFF = 255, 0.05
# The steps of an image with fewer levels do not tell its brightness: black and white alone are two levels.
FEWEST = 32
# The number of values of an image that are tried first, so that few images are compared whole.
TRIED = 48


def of_levels(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation [channels, 1, 1] that turn normalised samples into pixels.

    8-bit pixels lie on 256 levels, so normalised ones lie on a lattice whose step gives the deviation. Which
    level is black is not known: the darkest value is taken to be as far from black as the brightest from
    white, which is exact if a channel has both. Without a lattice they are black and white themselves.
    """
    found = [_of_channel(each) for each in samples.transpose(0, 1).flatten(1).double()]
    mean, deviation = torch.tensor(found, dtype=torch.float64).T[:, :, None, None]
    return mean, deviation


def _of_channel(values: Tensor) -> tuple[float, float]:
    """Return the mean and the deviation of one channel's values [n]."""
    ordered = values.sort().values
    low, extent = float(ordered[0]), float(ordered[-1] - ordered[0])
    if not extent:
        return 0.5, 1.0
    gaps = ordered.diff()
    # Equal pixels differ only by the noise of the update, which is far below a step.
    gaps = gaps[gaps > extent / LEVELS / 2]
    count = round(extent / float(gaps.min())) if len(gaps) else 0
    steps = (ordered - low) / extent * count
    if not 0 < count <= LEVELS or float((steps - steps.round()).abs().max()) > OFF:
        return -low / extent, 1 / extent
    deviation = count / LEVELS / extent
    return (LEVELS - count) // 2 / LEVELS - low * deviation, deviation


def brightest(samples: Tensor) -> Tensor:
    """Return the level of the brightest value of samples that are known up to a factor, [n].

    8-bit pixels are whole multiples of one level, and those of a photograph have no common divisor: it is the
    smallest level that makes all values whole; 0 where there is none, or one below FEWEST.
    """
    found = torch.zeros(len(samples), dtype=samples.dtype)
    first = samples[:, torch.linspace(0, samples.shape[1] - 1, TRIED).long()]
    open_ = torch.ones(len(samples), dtype=torch.bool)
    for level in range(1, LEVELS + 1):
        rows = (open_ & (_off(first * level) <= OFF)).nonzero()[:, 0]
        rows = rows[_off(samples[rows] * level) <= OFF]
        found[rows] = level if level >= FEWEST else 0
        open_[rows] = False
    return found


def _off(values: Tensor) -> Tensor:
    """Return the largest distance of the values [n, …] of each row from whole numbers, [n]."""
    return (values - values.round()).abs().flatten(1).amax(1)
