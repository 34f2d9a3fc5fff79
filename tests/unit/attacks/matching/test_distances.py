"""The distances of gradients against NumPy and SciPy, and their derivatives against finite differences."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from torch import Tensor
from trial_networks import distance_of

from leakbench.attacks.matching.distances import added, products, whole_derivative, with_cotangent
from leakbench.attacks.matching.terms import Distance
from leakbench.base.errors import Unfit

NAMES = ["squares", "norm", "cosine", "squares+norm", "squares+cosine"]
TRIALS, SHAPES = 3, {"conv": (2, 3, 2), "bias": (4,), "dense": (3, 2)}


def drawn(seed: int) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {n: torch.randn(TRIALS, *shape, generator=rng, dtype=torch.float64) for n, shape in SHAPES.items()}


def value(name: str, found: dict[str, Tensor], observed: dict[str, Tensor], weights: Tensor) -> Tensor:
    distance = distance_of(name)
    each = dict(zip(observed, weights.T, strict=True))
    theirs = products(("mine",), observed, observed, each)["mine"]
    return distance.value(products(distance.of, found, observed, each), theirs)


def flat(tensors: dict[str, Tensor], trial: int) -> np.ndarray:
    return np.concatenate([each[trial].numpy().ravel() for each in tensors.values()])


WEIGHTS = torch.tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 0.0], [0.5, 2.0, 9.0]], dtype=torch.float64)


def test_distances_are_numpys_and_scipys_with_weights_and_terms_are_added() -> None:
    found, observed = drawn(0), drawn(1)
    got = {name: value(name, found, observed, WEIGHTS) for name in NAMES}
    sizes = [int(np.prod(shape)) for shape in SHAPES.values()]
    for trial in range(TRIALS):
        weights, mine, theirs = (
            np.repeat(WEIGHTS[trial].numpy(), sizes), flat(found, trial), flat(observed, trial),
        )  # fmt: skip
        squares = float((weights * (mine - theirs) ** 2).sum())
        expected = {"squares": squares, "norm": squares**0.5, "cosine": cosine(mine, theirs, weights)}
        for name, each in got.items():
            assert float(each[trial]) == pytest.approx(sum(expected[n] for n in name.split("+")), rel=1e-12)


@pytest.mark.parametrize(
    ("value", "shape"),
    [(lambda known, _: known["gap"].mean(), "a number"), (lambda known, _: known["gap"][:, None], "3 x 1")],
)
def test_a_distance_that_is_no_value_for_each_trial_is_refused(value: Any, shape: str) -> None:
    found, observed = drawn(0), drawn(1)
    theirs = products(("mine",), observed, observed)["mine"]
    own, both = Distance(("gap",), value), added([Distance(("gap",), value), distance_of("norm")])
    for distance in (own, both):
        with pytest.raises(Unfit, match=f"objective: a distance gives {shape}, not a value for each of 3"):
            with_cotangent(distance, found, observed, None, theirs)
    whole = Distance((), lambda _, theirs: torch.zeros_like(theirs), lambda found, _: found["bias"].sum())
    with pytest.raises(Unfit, match="a distance gives a number"):
        whole_derivative(whole, found, observed)


def test_the_norm_has_no_slope_where_gradients_are_equal() -> None:
    found = {name: each.requires_grad_() for name, each in drawn(0).items()}
    value("norm", found, drawn(0), WEIGHTS).sum().backward()
    assert all(each.grad is not None and not each.grad.any() for each in found.values())


def test_sliced_wasserstein_sees_points_and_not_their_order_and_in_one_dimension_sorted_values() -> None:
    found, observed = drawn(0), drawn(1)
    shuffled = {name: each[:, torch.randperm(each.shape[1])] for name, each in observed.items()}
    distance = distance_of("wasserstein")
    one, other = (distance.whole(found, each) for each in (observed, shuffled))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
    assert distance.whole(observed, shuffled).abs().max() < 1e-14
    assert (one > 0.1).all()
    mine, theirs = (np.sort(each["bias"][0].numpy()) for each in (found, observed))
    line = float(distance.whole(*({"bias": each["bias"][:1]} for each in (found, observed))))
    assert line == pytest.approx(float(np.sqrt(((mine - theirs) ** 2).sum())), rel=1e-12)


def test_sliced_wasserstein_of_single_points_is_their_distance_on_average() -> None:
    one, other = torch.randn(200, 1, 6, dtype=torch.float64), torch.randn(200, 1, 6, dtype=torch.float64)
    distance = distance_of("wasserstein")
    squares = distance.whole({"w": one}, {"w": other}).square()
    assert float((squares / (one - other).square().sum((1, 2))).mean()) == pytest.approx(1, rel=0.1)


def test_the_derivative_of_sliced_wasserstein_passes_gradcheck() -> None:
    found, observed = drawn(0), drawn(1)
    distance = distance_of("squares+wasserstein")
    _, slopes = whole_derivative(distance, found, observed)

    def loss(*parts: Tensor) -> Tensor:
        return distance.whole(dict(zip(found, parts, strict=True)), observed)

    leaves = tuple(each.requires_grad_() for each in found.values())
    assert torch.autograd.gradcheck(loss, leaves)
    expected = torch.autograd.grad(loss(*leaves).sum(), leaves)
    for slope, other in zip(slopes.values(), expected, strict=True):
        torch.testing.assert_close(slope, other, rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_trial_does_not_see_the_others(name: str) -> None:
    found, observed = drawn(0), drawn(1)
    before = value(name, found, observed, WEIGHTS)
    for each in found.values():
        each[1] = torch.nan
    after = value(name, found, observed, WEIGHTS)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert after[1].isnan()


@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_of_a_distance_passes_gradcheck(name: str) -> None:
    found, observed = drawn(0), drawn(1)

    def loss(*parts: Tensor) -> Tensor:
        return value(name, dict(zip(found, parts, strict=True)), observed, WEIGHTS)

    assert torch.autograd.gradcheck(loss, tuple(each.requires_grad_() for each in found.values()))
