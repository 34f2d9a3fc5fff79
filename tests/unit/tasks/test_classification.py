"""One class to an image."""

import math

import pytest
import torch

from leakbench.base.errors import UserError
from leakbench.networks.tasks import classification, task_of


def test_the_loss_of_a_guess_is_the_logarithm_of_the_number_of_classes() -> None:
    assert classification.loss(torch.zeros(3, 8), torch.tensor([0, 5, 7])).item() == pytest.approx(
        math.log(8)
    )


def test_the_likeliest_class_is_the_answer() -> None:
    outputs = torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    assert classification.correct(outputs, torch.tensor([1, 1])).tolist() == [True, False]


def test_a_regime_without_the_key_classifies() -> None:
    assert task_of({}) is classification
    assert task_of({"task": "recognition"}) is not classification


def test_readings_are_no_classes() -> None:
    for function in (classification.loss, classification.correct):
        with pytest.raises(UserError, match="takes logits of two dimensions") as told:
            function(torch.zeros(2, 5, 4), torch.zeros(2, 5))
        assert "\n" not in str(told.value)
