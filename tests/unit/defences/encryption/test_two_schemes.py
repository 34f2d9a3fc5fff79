"""CKKS on its grid and Paillier's packing: exact sums, and refusals at the edge of their room."""

import gmpy2
import numpy as np
import pytest

from leakbench.base.errors import UserError
from leakbench.defences.encryption import build
from leakbench.defences.encryption.ckks import weighted
from leakbench.defences.encryption.paillier import fields, pack, residue, unpack


@pytest.mark.parametrize("largest", [1.0, 100.0])
def test_a_sum_is_exact_on_the_grid_up_to_the_largest_values(largest: float) -> None:
    scheme = build("ckks", {})
    keys, rng = scheme.keys(), np.random.default_rng(0)
    values, weights = rng.uniform(-largest, largest, (2, 9000)), [64, 63]
    values[:, :100] = rng.choice([-largest, largest], (2, 100))
    found = scheme.opened(keys, scheme.combine(keys, [scheme.seal(keys, each) for each in values], weights))
    whole = np.array(weights) @ np.rint(values * 2.0**30).astype(np.int64)
    assert np.array_equal(found, whole / scheme.pieces / 2**30)
    error = np.abs(found - np.array(weights) / scheme.pieces @ values).max()
    assert 0.8 * scheme.bound(weights) < error <= scheme.bound(weights) * (1 + 1e-4)
    assert scheme.bound(weights) == pytest.approx(1.27 / 2**31)


def refused(ring: int) -> bool:
    """Return whether a single client's largest values, which have most noise, are refused."""
    scheme = build("ckks", {"ring": ring})
    keys = scheme.keys()
    values = np.random.default_rng(1).choice([-100.0, 100.0], 20_000)
    try:
        found = scheme.opened(keys, scheme.combine(keys, [scheme.seal(keys, values)], [100]))
    except UserError:
        return True
    assert np.array_equal(found, values)
    return False


@pytest.mark.parametrize("ring", [8192, 16384])
def test_noise_stays_far_below_half_a_step(ring: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times below it. The second half shows that the check is there, and measures noise."""
    monkeypatch.setattr("leakbench.defences.encryption.ckks._CLEAR", 0.5 / 8)
    assert not refused(ring)
    monkeypatch.setattr("leakbench.defences.encryption.ckks._CLEAR", 0.0)
    assert refused(ring)


def test_sums_of_sums_have_the_product_of_their_weights() -> None:
    scheme = build("ckks", {"pieces": 10})
    keys = scheme.keys()
    inner = scheme.combine(keys, [scheme.seal(keys, np.array([0.5, -1.0]))], [3])
    outer = scheme.combine(keys, [inner, inner], [1, 1])
    assert outer.weight == 6
    assert scheme.opened(keys, outer).tolist() == [0.3, -0.6]


@pytest.mark.parametrize(
    "parameters", [{"scale_bits": 30}, {"grid_bits": 38, "largest": 1.0, "scale_bits": 45}]
)
def test_noise_that_may_have_changed_a_sum_is_refused_in_one_line(parameters: dict[str, float]) -> None:
    scheme = build("ckks", parameters)
    keys = scheme.keys()
    sealed = scheme.seal(keys, np.linspace(-1, 1, 4000))
    with pytest.raises(UserError, match=r"of a step of 2\^-3[08] off the grid.*lower grid_bits") as told:
        scheme.opened(keys, scheme.combine(keys, [sealed], [100]))
    assert "\n" not in str(told.value)


def test_doublings_and_additions_are_a_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 5):
        weights, numbers = (rng.integers(1, 300, count).tolist() for _ in range(2))
        assert weighted(numbers, weights) == np.dot(weights, numbers)


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


def test_blinding_by_the_primes_is_an_nth_residue_and_opens_to_zero() -> None:
    scheme = build("paillier", {"bits": 128})
    keys = scheme.keys()
    private, n = keys.private, keys.public.n
    order = (private.p - 1) * (private.q - 1)
    seen = {residue(private) for _ in range(50)}
    assert len(seen) == 50
    for each in seen:
        # The n-th residues modulo n² are what (p − 1)(q − 1) takes to 1.
        assert gmpy2.powmod(each, order, n * n) == 1
        assert private.raw_decrypt(each) == 0
    # A client without the private key encrypts as well, and weights may add up to the whole headroom.
    sealed = scheme.seal(keys.without_private(), np.array([0.25, -0.5]))
    found = scheme.opened(keys, scheme.combine(keys, [sealed, sealed], [100, 28]))
    assert found == pytest.approx([0.32, -0.64], abs=1e-7)


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
