"""Dropout whose mask is handed in: its scale, its mean, its silence outside training."""

from math import sqrt

import pytest
import torch

from leakbench.networks import victims
from leakbench.networks.layers import Dropout, draw_masks


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_masks_are_zero_or_the_inverse_of_what_is_kept(rate: float) -> None:
    layer = Dropout(rate, 128)
    mask = layer.draw((4, 500), torch.Generator().manual_seed(0))
    assert mask.shape == (4, 500, 128)
    assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])
    # A kept share of 1 - rate times 1/(1 - rate): the mean is 1 within 5 standard errors.
    assert mask.mean().item() == pytest.approx(1, abs=5 * sqrt(rate / (1 - rate) / mask.numel()))
    per_neuron = mask.flatten(0, 1).mean(0)
    assert (per_neuron - 1).abs().max() < 6 * sqrt(rate / (1 - rate) / 2000)


def test_a_mask_multiplies_and_a_victim_left_alone_evaluates() -> None:
    layer = Dropout(0.5, 3)
    x = torch.tensor([[1.0, 2.0, 3.0]])
    assert torch.equal(layer(x), x)
    assert torch.equal(layer.train()(x), x)
    layer.keep = torch.tensor([[2.0, 0.0, 2.0]])
    assert torch.equal(layer(x), torch.tensor([[2.0, 0.0, 6.0]]))


def test_dropout_changes_nothing_in_evaluation() -> None:
    outputs = []
    for rate in (0.0, 0.5):
        torch.manual_seed(0)
        outputs.append(
            victims.build("fcnn", (28, 28, 1), 10, {"dropout": rate}).eval()(torch.ones(2, 1, 28, 28))
        )
    assert torch.equal(*outputs)


def test_the_mask_is_no_part_of_the_weights() -> None:
    model = victims.build("cnn", (28, 28, 1), 10, {"dropout": 0.5})
    assert not any("keep" in name for name in model.state_dict())
    assert not any("keep" in name for name, _ in model.named_parameters())


def test_masks_are_drawn_for_every_dropout_and_for_none() -> None:
    model = victims.build("cnn", (28, 28, 1), 10, {"dropout": 0.5})
    masks = draw_masks(model, (2, 5), torch.Generator().manual_seed(1))
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {"dropout.keep": (2, 5, 128)}
    again = draw_masks(model, (2, 5), torch.Generator().manual_seed(1))
    assert torch.equal(masks["dropout.keep"], again["dropout.keep"])
    other = draw_masks(model, (2, 5), torch.Generator().manual_seed(2))
    assert not torch.equal(masks["dropout.keep"], other["dropout.keep"])
    assert draw_masks(victims.build("cnn", (28, 28, 1), 10, {}), (2, 5), torch.Generator()) == {}
