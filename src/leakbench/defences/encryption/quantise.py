"""Numbers as integers, which integers can weight and add up under encryption (thesis, section 4.2.2)."""

from collections.abc import Sequence

import numpy as np

from leakbench.base.errors import UserError


def integers(values: np.ndarray, scale: int, pieces: int) -> list[int]:
    """Return values as round(value · scale / pieces), exactly, to the nearest integer."""
    if not np.isfinite(values).all():
        raise UserError("the update holds a value that is no finite number (lower the training's lr)")
    found = []
    for value in values.tolist():
        above, below = value.as_integer_ratio()
        over = below * pieces
        found.append((2 * above * scale + over) // (2 * over))
    return found


def weights(shares: Sequence[float], pieces: int) -> list[int]:
    return [round(float(share) * pieces) for share in shares]


def values(sums: Sequence[int], scale: int) -> np.ndarray:
    """Return weighted sums of `integers` as values float64 [n]."""
    return np.array([each / scale for each in sums])


def bound(weights: Sequence[int], scale: int) -> float:
    """Return how far a weighted sum of `integers` may be from Σ weight/pieces · value: Σ weight / (2 scale).

    Each integer is within 1/2 of value · scale / pieces. Float64 adds one part in 2^53 of the sum.
    """
    return sum(weights) / (2 * scale)
