"""CKKS on a grid: sums are exact to the last bit, noise that might change one is refused, and so is a grid
without room."""

import numpy as np
import pytest

from leakbench.base.errors import UserError
from leakbench.defences.encryption import build
from leakbench.defences.encryption.ckks import weighted


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


def test_what_float64_has_no_room_for_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(UserError, match="leave no room for weights that add up to 100"):
        build("ckks", {"grid_bits": 40})
    scheme = build("ckks", {"grid_bits": 36})
    keys = scheme.keys()
    sealed = scheme.seal(keys, np.ones(2))
    with pytest.raises(UserError, match="the weights add up to 164, the headroom is 163"):
        scheme.combine(keys, [sealed, sealed], [100, 64])


def test_doublings_and_additions_are_a_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 5):
        weights, numbers = (rng.integers(1, 300, count).tolist() for _ in range(2))
        assert weighted(numbers, weights) == np.dot(weights, numbers)
