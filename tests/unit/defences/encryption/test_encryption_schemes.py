"""CKKS and Paillier: what opens, how exactly, what each leaves to chance, and what it costs."""

import copy
import logging
import pickle
from fractions import Fraction
from typing import Any

import gmpy2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leakbench.base.errors import UserError
from leakbench.defences import encryption
from leakbench.defences.encryption import Keys, Scheme, build, quantise
from leakbench.defences.encryption.ckks import weighted
from leakbench.defences.encryption.paillier import fields, pack, residue, unpack

SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "packed": ("paillier", {}), "single": ("paillier", {"packed": False}),
    "published": ("paillier", {"bits": 128, "packed": False, "decimal_scale": 32}),
    "packed-128": ("paillier", {"bits": 128}), "ckks": ("ckks", {}),
}  # fmt: skip
PAIRS: dict[str, tuple[Scheme, Keys]] = {}


def pair(name: str) -> tuple[Scheme, Keys]:
    """Return a scheme and one key pair of it, drawn once."""
    if name not in PAIRS:
        scheme = build(*SCHEMES[name])
        PAIRS[name] = scheme, scheme.keys()
    return PAIRS[name]


@pytest.mark.parametrize("name", SCHEMES)
def test_the_sum_of_what_is_encrypted_is_within_the_bound(name: str) -> None:
    scheme, keys = pair(name)
    values = np.random.default_rng(0).normal(size=(3, 7))
    weights = [61, 0, 39]
    public = keys.without_private()
    total = scheme.combine(public, [scheme.seal(keys, each) for each in values], weights)
    found = scheme.opened(keys, total)
    exact = np.array(weights) / 100 @ values
    # Beside the bound, float64 itself rounds.
    assert np.abs(found - exact).max() <= scheme.bound(weights) + 1e-15
    assert total.weight == 100


def test_a_ciphertext_differs_each_time_and_does_not_open_with_another_pair() -> None:
    scheme, keys = pair("packed-128")
    first, second = (scheme.seal(keys, np.ones(3)) for _ in range(2))
    assert first.blocks != second.blocks
    with pytest.raises(UserError, match="another key pair"):
        scheme.opened(scheme.keys(), first)
    secure = [build("paillier", {"bits": bits}).about["secure"] for bits in (128, 2048, 3072)]
    assert secure == [False, True, True]


@pytest.mark.parametrize("name", ["packed-128", "published", "ckks"])
def test_what_does_not_belong_together_is_refused_in_one_line(name: str) -> None:
    scheme, keys = pair(name)
    public, sealed = keys.without_private(), scheme.seal(keys, np.ones(5))
    scheme.check(public, sealed, 5)
    broken = {
        "another key pair": scheme.seal(scheme.keys(), np.ones(5)),
        "values in": sealed._replace(blocks=sealed.blocks[:-1]),
        "malformed": sealed._replace(blocks=(b"\xff" * len(sealed.blocks[0]), *sealed.blocks[1:])),
        "ciphertext 0 is malformed": sealed._replace(blocks=(sealed.blocks[0][:-3], *sealed.blocks[1:])),
    }
    for says, upload in broken.items():
        with pytest.raises(UserError, match=says):
            scheme.check(public, upload, 5)
    with pytest.raises(UserError, match="not 6 in"):
        scheme.check(public, sealed, 6)


@pytest.mark.parametrize(("name", "value"), [("packed-128", 101.0), ("published", 1e6), ("ckks", 101.0)])
def test_an_overflow_is_refused_before_anything_is_sent(name: str, value: float) -> None:
    scheme, keys = pair(name)
    for each in (value, -value):
        with pytest.raises(UserError, match=r"headroom|beyond"):
            scheme.seal(keys, np.array([0.0, each]))
    with pytest.raises(UserError):
        scheme.seal(keys, np.array([np.inf]))


@pytest.mark.parametrize("name", SCHEMES)
def test_keys_are_in_no_repr_log_pickle_or_copy(name: str, caplog: pytest.LogCaptureFixture) -> None:
    _, keys = pair(name)
    logging.getLogger("leakbench").warning("%s %r", keys, keys)
    told = f"{keys!r} {keys} {caplog.text}"
    if name != "ckks":
        for secret in (keys.private.p, keys.private.q, keys.public.n):
            assert str(secret) not in told
            assert f"{secret:x}" not in told
    assert len(repr(keys)) < 60
    for take in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="neither pickled nor copied"):
            take(keys)
    assert keys.without_private().private is None


@pytest.mark.parametrize("name", ["packed-128", "ckks"])
def test_what_is_opened_depends_on_no_key_and_no_noise(name: str) -> None:
    scheme, _ = pair(name)
    values = np.random.default_rng(2).uniform(-1, 1, (3, 5000 if name == "ckks" else 50))
    # Noise gives sums of nothing a sign, which is a bit of the result.
    values[:, ::2] = 0
    found = []
    for _ in range(2):
        keys = scheme.keys()
        total = scheme.combine(
            keys.without_private(), [scheme.seal(keys, each) for each in values], [50, 30, 21]
        )
        # Values beyond one ciphertext are in several.
        assert len(total.blocks) == -(-values.shape[1] // scheme.about["values_per_ciphertext"]) > 1
        found.append(scheme.opened(keys, total))
    assert found[0].tobytes() == found[1].tobytes()
    assert np.abs(found[0] - np.array([0.5, 0.3, 0.21]) @ values).max() <= scheme.bound([50, 30, 21]) + 1e-15


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8),
    st.sampled_from([2**32, 10**32, 7]),
    st.integers(1, 300),
)
def test_every_integer_is_within_half_of_its_value(values: list[float], scale: int, pieces: int) -> None:
    for value, found in zip(values, quantise.integers(np.array(values), scale, pieces), strict=True):
        assert abs(found - Fraction(value) * scale / pieces) <= Fraction(1, 2)


def test_a_weighted_sum_stays_within_the_bound_and_comes_near_it() -> None:
    rng = np.random.default_rng(0)
    values, shares, scale = rng.normal(size=(3, 4000)), [0.5, 0.3, 0.2], 2**10
    weights = quantise.weights(shares, 100)
    assert weights == [50, 30, 20]
    sums = np.array([quantise.integers(each, scale, 100) for each in values]).T @ np.array(weights)
    error = np.abs(quantise.values(sums.tolist(), scale) - np.array(shares) @ values)
    bound = quantise.bound(weights, scale)
    assert bound == 100 / 2**11
    assert 0.8 * bound < error.max() <= bound * (1 + 1e-9)


@pytest.mark.parametrize("hidden", [np.zeros(1600), np.linspace(-1, 1, 1600)], ids=["zeros", "ramp"])
def test_the_bytes_of_paillier_are_uniform_whatever_they_hide(hidden: np.ndarray) -> None:
    scheme = encryption.build("paillier", {})
    sealed = scheme.seal(scheme.keys(), hidden)
    # Residues of n², which is no power of two: the first bytes are those of n² and less.
    seen = np.concatenate([np.frombuffer(block, np.uint8)[8:] for block in sealed.blocks])
    assert seen.size > 10_000
    # Of one in a million draws it would be said that they are not.
    assert chisquare(np.bincount(seen, minlength=256)).pvalue > 1e-6
    assert abs(np.corrcoef(seen[:-1], seen[1:])[0, 1]) < 5 / np.sqrt(seen.size)


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
    with pytest.raises(UserError, match=r"of a step of 2\^-3[08] off the grid.*lower grid_bits"):
        scheme.opened(keys, scheme.combine(keys, [sealed], [100]))


def test_doublings_and_additions_are_a_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 5):
        weights, numbers = (rng.integers(1, 300, count).tolist() for _ in range(2))
        assert weighted(numbers, weights) == np.dot(weights, numbers)


VALUE, WEIGHT = 5, 3
WIDTH = VALUE + 1 + WEIGHT


def test_packing_holds_at_the_edge_of_its_headroom() -> None:
    """The largest integers of either sign, times the largest weights, up to the last field."""
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
