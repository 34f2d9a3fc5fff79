"""The First Dense Layer Attack on a 2-2-2 network whose gradients are written out.

With a = ln 3 / 6, first layer W1 = [[1, 0], [-1, 1]], second W2 = [[a, -a], [-a, a]], no biases, ReLU
between:

x1 = (1, 2), class 0: hidden (1, 1), logits (0, 0), softmax (1/2, 1/2), error (-1/2, 1/2), so that the hidden
error is W2^T error = (-a, a); both neurons are active. x2 = (3, 1), class 1: hidden (3, 0), logits (3a, -3a),
whose difference is ln 3, softmax (3/4, 1/4), error (3/4, -3/4), hidden error (3a/2, -3a/2), of which the
second neuron, being inactive, gets none.
"""

from math import log

import numpy as np
import pytest
import torch
from torch import Tensor

from leakbench.attacks.fidel import fidel
from leakbench.federation import local_update
from leakbench.networks.victims import build
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

A = log(3) / 6
WEIGHTS = {
    "dense1.weight": np.array([[1, 0], [-1, 1]], np.float32),
    "dense1.bias": np.zeros(2, np.float32),
    "dense2.weight": np.array([[A, -A], [-A, A]], np.float32),
    "dense2.bias": np.zeros(2, np.float32),
}
X1, X2 = (1.0, 2.0), (3.0, 1.0)
pytestmark = pytest.mark.usefixtures("two_by_two")


def attack(weight: list[list[float]], bias: list[float]) -> Reconstruction:
    """Run the attack on one update of the first layer, in a network of 1×2 grey images."""
    updates = {name: np.zeros((1, 1, *value.shape), np.float32) for name, value in WEIGHTS.items()}
    updates["dense1.weight"][0, 0], updates["dense1.bias"][0, 0] = weight, bias
    network = {"module": "tiny", "parameters": {}, "shape": [1, 2, 1], "classes": 2}
    sent = {name: value[None] for name, value in WEIGHTS.items()}
    found = fidel(Observation(network, sent, updates, np.zeros(1, np.int64), [1], "model"), torch.Generator())
    assert found.images.shape == (1, 1, 2, 1, 1, 2)
    assert found.usable.shape == (1, 1, 2)
    assert (found.target, found.iterations) == ("images", 0)
    return found


def rows(found: Reconstruction) -> Tensor:
    return found.images.reshape(2, 2)


def gradient(samples: list[tuple[tuple[float, float], int]]) -> dict[str, Tensor]:
    """Return the mean gradient that the federation computes, to compare with the hand's."""
    images = torch.tensor([x for x, _ in samples]).reshape(1, -1, 1, 1, 2)
    labels = torch.tensor([[label for _, label in samples]])
    weights = {name: torch.from_numpy(value) for name, value in WEIGHTS.items()}
    model = build("tiny", (1, 2, 1), 2, {})
    return local_update(model, weights, images, labels, {}, 1.0, None, 1, "gradient")


def test_one_sample_is_read_from_every_live_neuron() -> None:
    # The change of each row is the hidden error times x1, that of the bias the hidden error.
    weight, bias = [[-A, -2 * A], [A, 2 * A]], [-A, A]
    torch.testing.assert_close(gradient([(X1, 0)])["dense1.weight"][0], torch.tensor(weight))
    torch.testing.assert_close(gradient([(X1, 0)])["dense1.bias"][0], torch.tensor(bias))
    found = attack(weight, bias)
    torch.testing.assert_close(rows(found), torch.tensor([[1.0, 2.0], [1.0, 2.0]]))
    assert found.usable.all()


def test_a_silent_neuron_is_a_zero_row_and_not_usable() -> None:
    weight, bias = [[4.5 * A, 1.5 * A], [0.0, 0.0]], [1.5 * A, 0.0]
    torch.testing.assert_close(gradient([(X2, 1)])["dense1.weight"][0], torch.tensor(weight))
    torch.testing.assert_close(gradient([(X2, 1)])["dense1.bias"][0], torch.tensor(bias))
    found = attack(weight, bias)
    torch.testing.assert_close(rows(found), torch.tensor([[3.0, 1.0], [0.0, 0.0]]))
    assert found.usable.flatten().tolist() == [True, False]


def test_two_samples_mix_where_both_are_active_and_part_where_one_is() -> None:
    # Means of the two: row 1 is (-a x1 + 3a/2 x2) / 2 = a (7/4, -1/4), bias (-a + 3a/2) / 2 = a/4;
    # row 2 is a x1 / 2, bias a/2.
    weight, bias = [[1.75 * A, -0.25 * A], [0.5 * A, A]], [0.25 * A, 0.5 * A]
    torch.testing.assert_close(gradient([(X1, 0), (X2, 1)])["dense1.weight"][0], torch.tensor(weight))
    torch.testing.assert_close(gradient([(X1, 0), (X2, 1)])["dense1.bias"][0], torch.tensor(bias))
    found = attack(weight, bias)
    # Row 1: -2 x1 + 3 x2 = (7, -1), a mixture outside the range of both. Row 2: x1 itself.
    torch.testing.assert_close(rows(found), torch.tensor([[7.0, -1.0], [1.0, 2.0]]))
    assert found.usable.all()


@pytest.mark.parametrize("factor", [-1.0, -0.01, 1e-6, 1e6])
def test_sign_and_size_of_an_update_do_not_matter(factor: float) -> None:
    weight = (factor * np.array([[1.75 * A, -0.25 * A], [0.5 * A, A]])).tolist()
    found = attack(weight, [factor * 0.25 * A, factor * 0.5 * A])
    torch.testing.assert_close(rows(found), torch.tensor([[7.0, -1.0], [1.0, 2.0]]))


def test_a_bias_change_of_exactly_zero_scales_the_row_by_its_largest_magnitude() -> None:
    found = attack([[0.5, -2.0], [3.0, 1.5]], [0.0, -0.0])
    torch.testing.assert_close(rows(found), torch.tensor([[0.25, -1.0], [1.0, 0.5]]))
    assert found.usable.all()


def test_a_bias_change_without_a_weight_change_shows_nothing() -> None:
    # The image is black, or the neuron reads nothing: the row is zero either way.
    found = attack([[0.0, 0.0], [0.5, 1.0]], [0.3, 0.5])
    torch.testing.assert_close(rows(found), torch.tensor([[0.0, 0.0], [1.0, 2.0]]))
    assert found.usable.flatten().tolist() == [False, True]
