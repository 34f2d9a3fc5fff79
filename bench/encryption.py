"""What each encryption costs: seconds and bytes for a value, and the largest error.

Seconds and bytes stand beside those of one value per ciphertext, and the error beside the bound that the
scheme states.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from bench.ceiling import Ceiling
from bench.measure import Row, Side, compare, stated
from leakbench.defences import encryption
from leakbench.defences.encryption import Keys, Scheme

# Scheme → its file, its keyword arguments, and the number of values that one call encrypts.
SCHEMES: dict[str, tuple[str, dict[str, Any], int]] = {
    "Paillier 2048": ("paillier", {"bits": 2048}, 1020),
    "Paillier 3072": ("paillier", {"bits": 3072}, 760),
    "CKKS, ring 8192": ("ckks", {}, 40960),
}
ALONE = 10
WEIGHTS = [50, 30, 20]


def _values(number: int) -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.01, size=(len(WEIGHTS), number))


def _error(scheme: Scheme, keys: Keys, number: int) -> tuple[float, float]:
    """Return the largest error of an opened weighted sum, and the bound that the scheme states."""
    values = _values(number)
    total = scheme.combine(keys.without_private(), [scheme.seal(keys, each) for each in values], WEIGHTS)
    exact = np.array(WEIGHTS) / scheme.pieces @ values
    return float(np.abs(scheme.opened(keys, total) - exact).max()), scheme.bound(WEIGHTS)


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield the bench's rows for every scheme.

    With Paillier, the keys of both ways have the same number of bits, and both ways draw their blinding in
    the same way.

    ceiling: not used, because whole numbers are multiplied here.
    small: whether to encrypt only a few values, to see that the comparison works.
    """
    for name, (module, parameters, whole) in SCHEMES.items():
        # The rival encrypts one value per ciphertext, with keys of the same size. CKKS has no such form, and
        # is compared with Paillier 2048.
        bits = parameters.get("bits", 2048)
        number, count = (40, 1) if small else (whole, ALONE)
        scheme, single = (
            encryption.build(module, parameters),
            encryption.build("paillier", {"bits": bits, "packed": False}),
        )
        keys, own = scheme.keys(), single.keys()
        values, few = _values(number)[0], _values(count)[0]
        alone = f"Paillier {bits}, one value per ciphertext"
        sides = (
            Side("ours", partial(scheme.seal, keys, values), number),
            Side(alone, partial(single.seal, own, few), count),
        )
        yield from compare(
            "encryption", f"{name}: encrypt", "seconds per value", sides[0], sides[1:], small=small
        )
        ours = sum(map(len, scheme.seal(keys, values).blocks)) / number
        theirs = sum(map(len, single.seal(own, few).blocks)) / count
        sums = f"{name}: weighted sum of {len(WEIGHTS)}"
        yield stated("encryption", sums, "bytes per value", ours, theirs, alone)
        error, bound = _error(scheme, keys, number)
        yield stated("encryption", sums, "largest error", error, bound, "the bound it states")
