"""Paillier's scheme through phe and gmpy2: one value per ciphertext as published, or many side by side.

Headroom of packing: let the integers be |q| < B = 2^v (`value_bits` v), let the weights of a sum add up to K
≤ 2^h (`weight_bits` h), and let fields be w = v + 1 + h bits wide. A plaintext is Σ_j (q_j + B) 2^(wj) over m
= ⌊(bits − 1) / w⌋ fields. Then 0 < q_j + B < 2B, so that a field of a weighted sum is Σ_i k_i (q_ij + B) < K
· 2B ≤ 2^(v+1+h) = 2^w: no field carries into the next. The whole sum is thus < 2^(wm) ≤ 2^(bits−1) ≤ n. It is
not reduced modulo n, and each field opens to Σ_i k_i q_ij + K·B. A client refuses |q| ≥ B before it sends
anything, and a server refuses K > 2^h before it adds.

Headroom of one value per ciphertext: |q| · 2^h ≤ n // 3, beyond which phe takes a number for a negative one.
"""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import gmpy2
import numpy as np
from phe import paillier as phe
from pydantic import Field

from leakbench.base.errors import UserError
from leakbench.defences.encryption import Keys, Scheme, Sealed, belongs, chosen, quantise

SECURE_BITS = 2048


def residue(private: Any) -> int:
    """Draw an n-th residue modulo n² uniformly, as Paillier's blinding r^n mod n², by means of the primes.

    Modulo p² the n-th residues are the p-th ones, and x^p mod p² depends only on x mod p, so a uniform x in 1
    … p − 1 gives each equally often, in a quarter of the time of r^n, which a client without the private key
    would use.
    """
    p, q = gmpy2.mpz(private.p), gmpy2.mpz(private.q)
    pp, qq = p * p, q * q
    a, b = (gmpy2.powmod(secrets.randbelow(int(prime) - 1) + 1, prime, prime * prime) for prime in (p, q))
    return int(a + pp * (gmpy2.invert(pp, qq) * (b - a) % qq))


def fields(bits: int, value_bits: int, weight_bits: int) -> tuple[int, int]:
    """Return how many fields a plaintext below 2^(bits − 1) has, and their width in bits."""
    width = value_bits + 1 + weight_bits
    count = (bits - 1) // width
    if count < 1:
        raise UserError(
            f"encryption: a key of {bits} bits has no room for a field of {width} (lower value_bits or "
            "weight_bits)"
        )
    return count, width


def pack(numbers: Sequence[int], count: int, width: int, value_bits: int) -> list[int]:
    """Return integers as plaintexts of several fields."""
    offset = 1 << value_bits
    if (largest := max(map(abs, numbers), default=0)) >= offset:
        raise UserError(
            f"a value of the update takes {largest.bit_length()} bits, the headroom is {value_bits} (raise "
            "value_bits, lower scale_bits, or clip the update)"
        )
    packed = []
    for start in range(0, len(numbers), count):
        whole = 0
        for number in reversed(numbers[start : start + count]):
            whole = whole << width | number + offset
        packed.append(whole)
    return packed


def unpack(
    packed: Sequence[int], number: int, count: int, width: int, value_bits: int, weight: int
) -> list[int]:
    """Return the weighted sums in opened plaintexts."""
    mask, offset, out = (1 << width) - 1, weight << value_bits, []
    for place, whole in enumerate(packed):
        here = min(count, number - place * count)
        if whole >> width * here:
            raise UserError(
                "the sum opens to no packed values (the update was encrypted with another key pair, or "
                "altered)"
            )
        out += [(whole >> width * j & mask) - offset for j in range(here)]
    return out


def paillier(
    *,
    bits: Literal[128, 2048, 3072] = 2048,
    packed: bool = True,
    pieces: Annotated[int, Field(gt=0)] = 100,
    scale_bits: Annotated[int, Field(gt=0)] = 32,
    decimal_scale: Annotated[int, Field(gt=0)] | None = None,
    value_bits: Annotated[int, Field(gt=0)] = 32,
    weight_bits: Annotated[int, Field(gt=0)] = 7,
) -> Scheme:
    """Return Paillier's scheme for values that are rounded to multiples of a step.

    As published: keys of 128 bits, which a laptop factors in seconds, one value per ciphertext, a scale of
    10^32, and 100 pieces. The defaults take |value| < 100. Source: thesis, Algorithms 2 and 3; P. Paillier
    (1999).

    bits: bits of the keys.
    packed: whether a ciphertext holds many values side by side, or one.
    pieces: the integer weight that stands for a share of 1.
    scale_bits: values are multiples of pieces / 2^scale_bits.
    decimal_scale: if given, values are multiples of pieces / 10^decimal_scale instead.
    value_bits: bits that hold the magnitude of a packed value.
    weight_bits: bits that hold the sum of a sum's weights. 7 bits are enough for 100 pieces and up to 56
    clients, whose rounded weights add up to at most 128.
    """
    scale = 10**decimal_scale if decimal_scale else 1 << scale_bits
    count, width = fields(bits, value_bits, weight_bits) if packed else (1, 0)
    length = -(-2 * bits // 8)

    def keys() -> Keys:
        public, private = phe.generate_paillier_keypair(n_length=bits)
        return Keys(secrets.token_hex(8), public, private)

    def plaintexts(keys: Keys, numbers: list[int]) -> list[int]:
        if packed:
            return pack(numbers, count, width, value_bits)
        if max(map(abs, numbers), default=0) << weight_bits > keys.public.max_int:
            raise UserError(
                f"a value of the update is beyond the headroom of a key of {bits} bits (lower the scale, or "
                "clip the update)"
            )
        return [number % keys.public.n for number in numbers]

    def seal(keys: Keys, values: np.ndarray) -> Sealed:
        n, square = keys.public.n, gmpy2.mpz(keys.public.nsquare)
        blocks = []
        for plain in plaintexts(keys, quantise.integers(values, scale, pieces)):
            # (1 + n)^m = 1 + mn modulo n².
            cipher = (n * plain + 1) * _blinding(keys) % square
            blocks.append(int(cipher).to_bytes(length, "big"))
        return Sealed(keys.name, len(values), tuple(blocks))

    def check(keys: Keys, sealed: Sealed, expected: int) -> None:
        belongs(keys, sealed, expected, -(-expected // count))
        for place, block in enumerate(sealed.blocks):
            cipher = int.from_bytes(block, "big")
            whole = len(block) == length and 0 < cipher < keys.public.nsquare
            if not whole or gmpy2.gcd(cipher, keys.public.n) != 1:
                raise UserError(f"ciphertext {place} is malformed (send it again)")

    def combine(keys: Keys, parts: Sequence[Sealed], weights: Sequence[int]) -> Sealed:
        used = chosen(parts, weights)
        total = sum(part.weight * weight for part, weight in used)
        if total > 1 << weight_bits:
            raise UserError(
                f"the weights add up to {total}, the headroom is {1 << weight_bits} (raise weight_bits)"
            )
        square = gmpy2.mpz(keys.public.nsquare)
        blocks = []
        for column in zip(*(part.blocks for part, _ in used), strict=True):
            product = gmpy2.mpz(1)
            for block, (_, weight) in zip(column, used, strict=True):
                product = product * gmpy2.powmod(int.from_bytes(block, "big"), weight, square) % square
            blocks.append(int(product).to_bytes(length, "big"))
        return Sealed(used[0][0].key, used[0][0].number, tuple(blocks), total)

    def opened(keys: Keys, sealed: Sealed) -> np.ndarray:
        check(keys, sealed, sealed.number)
        plain = [keys.secret().raw_decrypt(int.from_bytes(block, "big")) for block in sealed.blocks]
        if packed:
            sums = unpack(plain, sealed.number, count, width, value_bits, sealed.weight)
        else:
            n = keys.public.n
            sums = [each - n if each > n // 2 else each for each in plain]
        return quantise.values(sums, scale)

    about = {
        "scheme": "paillier", "bits": bits, "secure": bits >= SECURE_BITS, "packed": packed,
        "values_per_ciphertext": count, "bytes_per_ciphertext": length, "pieces": pieces,
    }  # fmt: skip
    return Scheme(
        keys, seal, combine, opened, lambda weights: quantise.bound(weights, scale), check, pieces, about
    )


def _blinding(keys: Keys) -> int:
    if keys.private is not None:
        return residue(keys.private)
    public = keys.public
    return int(gmpy2.powmod(public.get_random_lt_n(), public.n, public.nsquare))
