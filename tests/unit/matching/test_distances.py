"""The distances of gradients against NumPy and SciPy, and their derivatives against finite differences."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cosine
from torch import Tensor

from leakbench.matching.distances import DISTANCES, products
from leakbench.matching.objective import total_variation

TRIALS, SHAPES = 3, {"conv": (2, 3, 2), "bias": (4,), "dense": (3, 2)}


def drawn(seed: int) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return {n: torch.randn(TRIALS, *shape, generator=rng, dtype=torch.float64) for n, shape in SHAPES.items()}


def value(name: str, found: dict[str, Tensor], observed: dict[str, Tensor], weights: Tensor) -> Tensor:
    distance = DISTANCES[name]
    theirs = torch.stack([each.flatten(1).square().sum(1) for each in observed.values()], 1)
    return distance.value(products(distance.of, found, observed), theirs, weights)


def flat(tensors: dict[str, Tensor], trial: int) -> np.ndarray:
    return np.concatenate([each[trial].numpy().ravel() for each in tensors.values()])


WEIGHTS = torch.tensor([[1.0, 1.0, 1.0], [1.0, 5.0, 0.0], [0.5, 2.0, 9.0]], dtype=torch.float64)


def by_coordinate(trial: int) -> np.ndarray:
    sizes = [int(np.prod(shape)) for shape in SHAPES.values()]
    return np.repeat(WEIGHTS[trial].numpy(), sizes)


def test_squares_are_the_weighted_sum_of_squared_differences() -> None:
    found, observed = drawn(0), drawn(1)
    got = value("squares", found, observed, WEIGHTS)
    for trial in range(TRIALS):
        gap = flat(found, trial) - flat(observed, trial)
        assert float(got[trial]) == pytest.approx(float((by_coordinate(trial) * gap**2).sum()), rel=1e-12)


def test_cosine_is_scipys_with_weights() -> None:
    found, observed = drawn(0), drawn(1)
    got = value("cosine", found, observed, WEIGHTS)
    for trial in range(TRIALS):
        expected = cosine(flat(found, trial), flat(observed, trial), by_coordinate(trial))
        assert float(got[trial]) == pytest.approx(expected, rel=1e-12)


def test_cosine_knows_no_length_and_squares_do() -> None:
    found, observed = drawn(0), drawn(1)
    longer = {name: 3 * each for name, each in found.items()}
    same = [value("cosine", each, observed, WEIGHTS) for each in (found, longer)]
    torch.testing.assert_close(*same, rtol=1e-12, atol=0)
    assert (value("squares", longer, observed, WEIGHTS) > value("squares", found, observed, WEIGHTS)).all()


@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_a_distance_is_zero_where_gradients_are_equal(name: str) -> None:
    found = drawn(0)
    assert value(name, found, found, WEIGHTS).abs().max() < 1e-14


@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_a_trial_does_not_see_the_others(name: str) -> None:
    found, observed = drawn(0), drawn(1)
    before = value(name, found, observed, WEIGHTS)
    for each in found.values():
        each[1] = torch.nan
    after = value(name, found, observed, WEIGHTS)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert after[1].isnan()


@pytest.mark.parametrize("name", sorted(DISTANCES))
def test_the_derivative_of_a_distance_passes_gradcheck(name: str) -> None:
    found, observed = drawn(0), drawn(1)

    def loss(*parts: Tensor) -> Tensor:
        return value(name, dict(zip(found, parts, strict=True)), observed, WEIGHTS)

    assert torch.autograd.gradcheck(loss, tuple(each.requires_grad_() for each in found.values()))


def test_total_variation_is_the_loop_over_neighbours() -> None:
    images = torch.rand(2, 3, 2, 4, 5, dtype=torch.float64)
    for trial in range(2):
        down, across = [], []
        for picture in images[trial]:
            for channel in picture:
                for row in range(4):
                    for column in range(5):
                        if row < 3:
                            down.append(abs(float(channel[row + 1, column] - channel[row, column])))
                        if column < 4:
                            across.append(abs(float(channel[row, column + 1] - channel[row, column])))
        assert float(total_variation(images)[trial]) == pytest.approx(
            np.mean(down) + np.mean(across), rel=1e-12
        )


def test_total_variation_passes_gradcheck_and_is_zero_for_one_colour() -> None:
    images = torch.rand(2, 1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(total_variation, (images,))
    assert not total_variation(torch.full((2, 1, 3, 4, 4), 0.7)).any()
