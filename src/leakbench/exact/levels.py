"""Mean and deviation of a batch's pixels, read off the samples that were normalised by them."""

import torch
from torch import Tensor

# Steps between black and white of pixels of 8 bits, and how many steps a value may be off a level.
LEVELS, OFF = 255, 0.05


def of_levels(samples: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation [channels, 1, 1] that make pixels of samples [n, channels, rows, columns].

    Pixels of 8 bits lie on 256 levels, so normalised ones lie on a lattice whose step tells the deviation.
    Which of its levels is black is not known: the darkest is as far from black as the brightest is from
    white, and both are exact if the samples have black and white in a channel. Where there is no lattice, the
    darkest is taken for black and the brightest for white.
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
    # Equal pixels differ by the noise of the update alone, which is far below a step.
    gaps = gaps[gaps > extent / LEVELS / 2]
    count = round(extent / float(gaps.min())) if len(gaps) else 0
    steps = (ordered - low) / extent * count
    if not 0 < count <= LEVELS or float((steps - steps.round()).abs().max()) > OFF:
        return -low / extent, 1 / extent
    deviation = count / LEVELS / extent
    return (LEVELS - count) // 2 / LEVELS - low * deviation, deviation
