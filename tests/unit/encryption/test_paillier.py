"""Paillier's packing at the edge of its headroom, and blinding by the primes against the textbook's."""

import time

import gmpy2
import numpy as np
import pytest

from leakbench.base.errors import UserError
from leakbench.defences.encryption import build
from leakbench.defences.encryption.paillier import fields, pack, residue, unpack

VALUE, WEIGHT = 5, 3
WIDTH = VALUE + 1 + WEIGHT


def test_packing_holds_at_the_edge_of_its_headroom() -> None:
    """The largest integers of either sign, times the largest weights, in a plaintext filled to the last
    field."""
    count, width = fields(64, VALUE, WEIGHT)
    assert (count, width) == (7, WIDTH)
    edge = 2**VALUE - 1
    numbers = [edge, -edge, edge, edge, -edge, 0, edge]
    (whole,) = pack(numbers, count, width, VALUE)
    total = 2**WEIGHT * whole
    assert total < 2**63
    assert unpack([total], 7, count, width, VALUE, 2**WEIGHT) == [2**WEIGHT * number for number in numbers]


def test_one_step_beyond_the_headroom_is_refused() -> None:
    for beyond in (2**VALUE, -(2**VALUE)):
        with pytest.raises(UserError, match="takes 6 bits, the headroom is 5"):
            pack([0, beyond], 7, WIDTH, VALUE)
    scheme = build("paillier", {"bits": 128})
    keys = scheme.keys()
    sealed = scheme.seal(keys, np.ones(1))
    scheme.combine(keys, [sealed, sealed], [100, 28])
    with pytest.raises(UserError, match="weights add up to 129, the headroom is 128"):
        scheme.combine(keys, [sealed, sealed], [100, 29])
    with pytest.raises(UserError, match="all weights round to nothing"):
        scheme.combine(keys, [sealed, sealed], [0, 0])
    with pytest.raises(UserError, match="negative"):
        scheme.combine(keys, [sealed, sealed], [101, -1])


def test_a_key_too_small_for_a_field_is_refused() -> None:
    with pytest.raises(UserError, match="no room for a field"):
        build("paillier", {"bits": 128, "value_bits": 130})


def test_what_opens_to_no_packed_values_is_told() -> None:
    with pytest.raises(UserError, match="opens to no packed values"):
        unpack([1 << 7 * WIDTH], 7, 7, WIDTH, VALUE, 1)


def test_blinding_by_the_primes_is_an_nth_residue_and_opens_to_zero() -> None:
    keys = build("paillier", {"bits": 128}).keys()
    private, n = keys.private, keys.public.n
    order = (private.p - 1) * (private.q - 1)
    seen = {residue(private) for _ in range(50)}
    assert len(seen) == 50
    for each in seen:
        # The n-th residues modulo n² are what (p − 1)(q − 1) takes to 1.
        assert gmpy2.powmod(each, order, n * n) == 1
        assert private.raw_decrypt(each) == 0


def test_blinding_by_the_primes_draws_every_residue_alike() -> None:
    """Of tiny primes all residues r^n mod n² are known, and each is drawn."""

    class Tiny:
        p, q = 5, 7

    n = Tiny.p * Tiny.q
    every = {pow(r, n, n * n) for r in range(1, n) if r % 5 and r % 7}
    drawn = [residue(Tiny) for _ in range(2400)]
    assert set(drawn) == every
    counts = np.array([drawn.count(each) for each in every])
    assert counts.min() > 100 - 5 * 10
    assert counts.max() < 100 + 5 * 10


def test_a_client_without_the_private_key_encrypts_as_well() -> None:
    scheme = build("paillier", {"bits": 128})
    keys = scheme.keys()
    sealed = scheme.seal(keys.without_private(), np.array([0.25, -0.5]))
    assert scheme.opened(keys, scheme.combine(keys, [sealed], [100])) == pytest.approx([0.25, -0.5], abs=1e-7)


def test_packing_is_twenty_times_as_fast_at_2048_bits() -> None:
    """On the same machine in the same run; `make bench` reports the ratio."""

    def seconds(packed: bool, number: int) -> float:
        scheme = build("paillier", {"packed": packed})
        keys, values, turns = scheme.keys(), np.linspace(-1, 1, number), []
        for _ in range(3):
            start = time.perf_counter()
            scheme.seal(keys, values)
            turns.append((time.perf_counter() - start) / number)
        return min(turns)

    assert seconds(packed=True, number=510) * 20 <= seconds(packed=False, number=10)
