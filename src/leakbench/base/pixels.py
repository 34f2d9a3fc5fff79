"""The conversion of images from the form in which they are stored to that which networks and metrics see."""

from typing import TypeVar

import numpy as np

T = TypeVar("T")


def pixels(images: T) -> T:
    """Return uint8 [..., rows, columns, channels] as float32 [..., channels, rows, columns] in [0, 1].

    images: an array of NumPy, or a tensor on any device. Data that are no pictures, such as points and
    records, are real numbers; these keep their values.

    In memory the values lie in the same order as before, on which the last bits of a network's output depend.
    """
    turned = images.swapaxes(-1, -3).swapaxes(-1, -2)  # type: ignore[attr-defined]
    return turned if "float" in str(turned.dtype) else turned / np.float32(255)
