"""Labelled images of the attacker's own."""

from typing import Any

import pytest
import torch

from leakbench.base.errors import UserError
from leakbench.networks import generators


def build(each: int) -> Any:
    return generators.build("samples", (3,), (4, 4, 1), {"each": each})


def test_the_first_images_of_each_class_are_kept_with_their_labels() -> None:
    images = torch.arange(9.0)[:, None, None, None].expand(9, 1, 4, 4) / 9
    network = build(2)
    network.keep(images, torch.tensor([2, 0, 0, 1, 0, 2, 1, 1, 2]))
    assert network.labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert torch.allclose(network.images[:, 0, 0, 0] * 9, torch.tensor([1.0, 2, 3, 6, 0, 5]))
    again = build(2)
    again.load_state_dict(network.state_dict())
    assert torch.equal(again.images, network.images)


def test_a_class_without_enough_images_is_refused() -> None:
    with pytest.raises(UserError, match="a class has fewer than 4 auxiliary images"):
        build(4).keep(torch.rand(9, 1, 4, 4), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 2]))
