"""Numbers as integers, so that integers can weigh and add them up under encryption (thesis, section
4.2.2)."""

from collections.abc import Sequence

import numpy as np

from leakbench.errors import UserError


def integers(values: np.ndarray, scale: int, pieces: int) -> list[int]:
    """Return values float64 [n] as round(value · scale / pieces), exactly, to the nearest.

    Raises UserError for a value that is no finite number.
    """
    if not np.isfinite(values).all():
        raise UserError("the update holds a value that is no finite number (lower the training's lr)")
    found = []
    for value in values.tolist():
        above, below = value.as_integer_ratio()
        over = below * pieces
        found.append((2 * above * scale + over) // (2 * over))
    return found


def weights(shares: Sequence[float], pieces: int) -> list[int]:
    """Return round(share · pieces) of shares in [0, 1]. They need not add up to `pieces`, nor do the
    published ones."""
    return [round(float(share) * pieces) for share in shares]


def values(sums: Sequence[int], scale: int) -> np.ndarray:
    """Return weighted sums of `integers` as float64 [n]: Σ weight/pieces · value, but for the bound."""
    return np.array([each / scale for each in sums])


def bound(weights: Sequence[int], scale: int) -> float:
    """Return what a weighted sum of `integers` may differ by from Σ weight/pieces · value: Σ weight / (2
    scale).

    For each integer is within 1/2 of value · scale / pieces, and weights multiply that; the division by
    `scale` is correctly rounded, which float64 shows beside it as one part in 2^53 of the sum.
    """
    return sum(weights) / (2 * scale)
