"""What each encryption costs: seconds and bytes for a value, and the largest error, beside one value per
ciphertext."""

import resource
from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.measure import COLUMNS, compare
from leakbench import encryption
from leakbench.encryption import Keys, Scheme

# Scheme → its file, keywords, and how many values one call encrypts.
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


def rows() -> Iterator[dict[str, Any]]:
    """Yield the bench's rows. Both ways have the same keys and draw their blinding in the same way."""
    for name, (module, parameters, number) in SCHEMES.items():
        # One value per ciphertext of the same key size; CKKS has no such form, and Paillier 2048 stands
        # beside it.
        bits = parameters.get("bits", 2048)
        ways = []
        for scheme, count in (
            (encryption.build(module, parameters), number),
            (encryption.build("paillier", {"bits": bits, "packed": False}), ALONE),
        ):
            ways.append((scheme, scheme.keys(), _values(count)[0]))
        (scheme, keys, values), (single, own, few) = ways
        alone = f"Paillier {bits}, one value per ciphertext"

        def work(*way: Any) -> Any:
            return lambda: way[0].seal(*way[1:])

        yield compare(
            "encryption", f"{name}: encrypt", "seconds per value", (work(scheme, keys, values), number),
            (work(single, own, few), ALONE), alone, repeats=3,
        )  # fmt: skip
        sizes = scheme.seal(keys, values).size / number, single.seal(own, few).size / ALONE
        told = {
            "bytes per value": (*sizes, alone),
            "largest error": (*_error(scheme, keys, number), "the bound it states"),
        }
        for unit, (ours, other, against) in told.items():
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            line = [
                "encryption",
                f"{name}: weighted sum of {len(WEIGHTS)}",
                unit,
                f"{ours:.3e}",
                f"{other:.3e}",
                against,
                f"{other / ours:.1f}",
                memory,
            ]
            yield dict(zip(COLUMNS, line, strict=True))
