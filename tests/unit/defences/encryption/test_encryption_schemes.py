"""Every scheme adds up what it cannot read, and refuses in one line what does not belong together."""

import copy
import logging
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from leakbench.base.errors import UserError
from leakbench.defences import encryption
from leakbench.defences.encryption import Keys, Scheme, build, quantise

SCHEMES: dict[str, tuple[str, dict[str, Any]]] = {
    "packed": ("paillier", {}),
    "single": ("paillier", {"packed": False}),
    "published": ("paillier", {"bits": 128, "packed": False, "decimal_scale": 32}),
    "packed-128": ("paillier", {"bits": 128}),
    "ckks": ("ckks", {}),
}
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
        with pytest.raises(UserError, match=says) as told:
            scheme.check(public, upload, 5)
        assert "\n" not in str(told.value)
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
def test_every_integer_is_within_half_of_what_it_stands_for(
    values: list[float], scale: int, pieces: int
) -> None:
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
