"""The CKKS scheme through TenSEAL: approximate sums of many real numbers per ciphertext."""

import math
import secrets
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from leakbench.encryption import Keys, Scheme, Sealed, belongs, chosen
from leakbench.errors import UserError

# One multiplication by a weight takes the middle prime. SEAL's table of 128-bit security allows 218 bits at ring 8192.
_PRIMES = [60, 40, 60]
# The noise of fresh ciphertexts at scale 2^40 stayed below 2^-24 in all that we measured.
_NOISE = 2.0**-20


def ckks(
    *,
    ring: Literal[8192, 16384] = 8192,
    scale_bits: Annotated[int, Field(gt=19, lt=41)] = 40,
    pieces: Annotated[int, Field(gt=0)] = 100,
    largest: Annotated[float, Field(gt=0)] = 100.0,
) -> Scheme:
    """Return the scheme with `ring` / 2 values per ciphertext at a scale of 2^scale_bits.

    Values beyond ± `largest` are refused before anything is sent: 2^60 of the first prime over the scale is the room there is.
    `bound` is no proof, as it is for Paillier: CKKS adds noise, and weights that add up to K may multiply it by K / pieces.
    Who is shown opened values together with their ciphertexts may find the key (Li and Micciancio 2021), so that both stay with
    the clients, who have it. Sources: Cheon et al., Homomorphic encryption for arithmetic of approximate numbers (2017); SEAL's table of parameters.
    """
    import tenseal

    slots = ring // 2

    def keys() -> Keys:
        context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, ring, coeff_mod_bit_sizes=_PRIMES, n_threads=1)
        context.global_scale = 2.0**scale_bits
        public = context.copy()
        public.make_context_public()
        return Keys(secrets.token_hex(8), public, context)

    def seal(keys: Keys, values: np.ndarray) -> Sealed:
        if not np.isfinite(values).all() or np.abs(values).max(initial=0) > largest:
            raise UserError(
                f"a value of the update is beyond ± {largest:g} (clip the update, or raise the encryption's largest)"
            )
        parts = np.split(values, range(slots, len(values), slots))
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
        columns = zip(*(read(keys, part) for part, _ in used), strict=True)
        blocks = []
        for column in columns:
            terms = [vector * (weight / pieces) for vector, (_, weight) in zip(column, used, strict=True)]
            for term in terms[1:]:
                terms[0] += term
            blocks.append(terms[0].serialize())
        total = sum(part.weight * weight for part, weight in used)
        return Sealed(used[0][0].key, used[0][0].number, tuple(blocks), total)

    def opened(keys: Keys, sealed: Sealed) -> np.ndarray:
        belongs(keys, sealed, sealed.number, math.ceil(sealed.number / slots))
        return np.concatenate([vector.decrypt(keys.secret().secret_key()) for vector in read(keys, sealed)])

    def bound(weights: Sequence[int]) -> float:
        return _NOISE * 2.0 ** (40 - scale_bits) * max(1.0, sum(weights) / pieces)

    about = {
        "scheme": "ckks", "bits": ring, "secure": True, "packed": True, "values_per_ciphertext": slots, "pieces": pieces,
    }  # fmt: skip
    return Scheme(keys, seal, combine, opened, bound, check, pieces, about)
