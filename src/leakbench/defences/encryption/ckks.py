"""The CKKS scheme through TenSEAL: many numbers per ciphertext, and sums that are exact although CKKS is not.

CKKS opens a sum with noise, which differs from run to run. So values are rounded to multiples of 2^-grid_bits
before they are sealed. The server weights by integers and adds a ciphertext to itself; it neither encodes a
weight nor rescales, because either would change the sum. A weighted sum is then itself a multiple of
2^-grid_bits. Rounding what is opened to the nearest multiple gives the sum exactly, as long as the noise is
less than half a step.

That the noise is less is measured but not proved. At the defaults a sum whose weights add up to 100 opened at
most 0.014 of a step off for values up to ± 100, and 0.003 for values up to ± 1 (36 and 160 times less than
half a step). Noise grows with the sum of the weights and, as 2^-scale_bits, with a smaller scale. At the
default scale float64, in which TenSEAL encodes and decodes, adds an error that grows with the values. A sum
that is more than a quarter of a step off is refused.
"""

import math
import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from leakbench.base.errors import UserError
from leakbench.defences.encryption import Keys, Scheme, Sealed, belongs, chosen

# Ciphertexts are numbers modulo the first two. SEAL's table of 128-bit security allows 218 bits in all at
# ring 8192.
_PRIMES = [60, 40, 60]
_MODULUS_BITS = sum(_PRIMES[:-1])
# A sum is refused if it is more than this many steps off the grid. Noise changes a result from half a step
# on. Where one value has that much noise, other values are most likely to be off by this much.
_CLEAR = 0.25
# Sums have fewer than 2^50 steps, so that float64 tells eighths of a step apart.
_STEPS_BITS = 50


def ckks(
    *,
    ring: Literal[8192, 16384] = 8192,
    scale_bits: Annotated[int, Field(gt=19, le=60)] = 60,
    grid_bits: Annotated[int, Field(gt=0)] = 30,
    pieces: Annotated[int, Field(gt=0)] = 100,
    largest: Annotated[float, Field(gt=0)] = 100.0,
) -> Scheme:
    """Return the scheme with `ring` / 2 values per ciphertext.

    Values beyond ± `largest` are refused before anything is sent. Weights are refused before anything is
    added if they add up to so much that a sum may not fit float64 or the modulus. `bound` is that of the
    rounding, half a step times Σ weight / pieces. It holds as long as noise does not change the rounded
    result. Opening a value that is more than a quarter of a step off the grid raises UserError.

    An attacker who is shown values opened with their noise, and their ciphertexts, may find the key (Li and
    Micciancio 2021). Rounded values are the exact sums and show no noise, but only as long as noise is less
    than half a step, and a refusal shows how large the noise was. So both stay with the clients, who have the
    key. Sources: Cheon et al., Homomorphic encryption for arithmetic of approximate numbers (2017); SEAL's
    table of parameters.

    ring: the size of the ring, twice the number of values per ciphertext.
    scale_bits: the scale is 2^scale_bits.
    grid_bits: values are rounded to steps of 2^-grid_bits.
    pieces: the integer weight that stands for a share of 1.
    largest: the largest magnitude of a value.

    Raises UserError if the grid leaves no room for weights that add up to `pieces`.
    """
    import tenseal

    slots, step = ring // 2, 2.0**-grid_bits
    # The modulus holds both signs, and noise.
    room = min(2.0**_STEPS_BITS * step, 2.0 ** (_MODULUS_BITS - 2 - scale_bits)) / largest
    if room < pieces:
        raise UserError(
            f"encryption: values up to ± {largest:g} in steps of 2^-{grid_bits} leave no room for weights "
            f"that add up to {pieces} (lower grid_bits, scale_bits, largest or pieces)"
        )

    def keys() -> Keys:
        context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, ring, coeff_mod_bit_sizes=_PRIMES, n_threads=1)
        context.global_scale = 2.0**scale_bits
        public = context.copy()
        public.make_context_public()
        return Keys(secrets.token_hex(8), public, context)

    def seal(keys: Keys, values: np.ndarray) -> Sealed:
        if not np.isfinite(values).all() or np.abs(values).max(initial=0) > largest:
            raise UserError(
                f"a value of the update is beyond ± {largest:g} (clip the update, or raise the encryption's "
                "largest)"
            )
        parts = np.split(np.rint(values / step) * step, range(slots, len(values), slots))
        blocks = tuple(tenseal.ckks_vector(keys.public, part.tolist()).serialize() for part in parts)
        return Sealed(keys.name, len(values), blocks)

    def read(keys: Keys, sealed: Sealed) -> list[tenseal.CKKSVector]:
        found = []
        for place, block in enumerate(sealed.blocks):
            try:
                found.append(tenseal.ckks_vector_from(keys.private or keys.public, block))
                if found[-1].size() != min(slots, sealed.number - place * slots):
                    raise ValueError("another number of values")
            except (ValueError, RuntimeError, TypeError, IndexError) as problem:
                raise UserError(f"ciphertext {place} is malformed (send it again)") from problem
        return found

    def check(keys: Keys, sealed: Sealed, expected: int) -> None:
        belongs(keys, sealed, expected, math.ceil(expected / slots))
        read(keys, sealed)

    def combine(keys: Keys, parts: Sequence[Sealed], weights: Sequence[int]) -> Sealed:
        used = chosen(parts, weights)
        total = sum(part.weight * weight for part, weight in used)
        if total > room:
            raise UserError(
                f"the weights add up to {total}, the headroom is {math.floor(room)} (lower grid_bits or "
                "largest)"
            )
        columns = zip(*(read(keys, part) for part, _ in used), strict=True)
        blocks = tuple(weighted(column, [weight for _, weight in used]).serialize() for column in columns)
        return Sealed(used[0][0].key, used[0][0].number, blocks, total)

    def opened(keys: Keys, sealed: Sealed) -> np.ndarray:
        belongs(keys, sealed, sealed.number, math.ceil(sealed.number / slots))
        secret = keys.secret().secret_key()
        steps = np.concatenate([vector.decrypt(secret) for vector in read(keys, sealed)]) / step
        whole = np.rint(steps)
        if not (off := np.abs(steps - whole).max(initial=0)) <= _CLEAR:
            raise UserError(
                f"encryption: a sum opens {off:.2f} of a step of 2^-{grid_bits} off the grid, so that noise "
                "may have changed it (lower grid_bits, or raise scale_bits)"
            )
        # Adding 0.0 removes the minus sign that noise gives to a zero.
        return (whole + 0.0) / pieces * step

    def bound(weights: Sequence[int]) -> float:
        return sum(weights) / pieces * step / 2

    about = {
        "scheme": "ckks", "bits": ring, "secure": True, "packed": True, "values_per_ciphertext": slots,
        "bytes_per_ciphertext": 2 * ring * _MODULUS_BITS // 8, "pieces": pieces,
    }  # fmt: skip
    return Scheme(keys, seal, combine, opened, bound, check, pieces, about)


def weighted(vectors: Sequence[Any], weights: Sequence[int]) -> Any:
    """Return Σ weight · vector, by doublings and additions alone, from the highest bit down."""
    total = None
    for bit in reversed(range(max(weights).bit_length())):
        total = None if total is None else total + total
        for vector, weight in zip(vectors, weights, strict=True):
            if weight >> bit & 1:
                total = vector if total is None else total + vector
    return total
