"""Defences: none changes nothing; withheld coordinates are zero and the rest is as it was."""

from math import sqrt

import pytest
import torch
from torch import nn

from leakbench import defences

# No coordinate of it is zero.
UPDATE = {"a": 1 + torch.rand(3, 40, 50), "b": 1 + torch.rand(3, 40)}


def test_no_defence_hands_on_the_very_same_objects() -> None:
    defence, model, rng = defences.build("none", {}), nn.Linear(1, 1), torch.Generator().manual_seed(0)
    state = rng.get_state()
    assert defence.protect_model(model, rng) is model
    assert defence.protect_update(UPDATE, rng) is UPDATE
    assert torch.equal(rng.get_state(), state)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_withheld_coordinates_are_zero_and_the_rest_is_untouched(share: float) -> None:
    defence = defences.build("withhold", {"share": share})
    before = {name: value.clone() for name, value in UPDATE.items()}
    sent = defence.protect_update(UPDATE, torch.Generator().manual_seed(0))
    assert set(sent) == set(UPDATE)
    kept = sent["a"] != 0
    assert torch.equal(sent["a"][kept], UPDATE["a"][kept])
    assert kept.float().mean().item() == pytest.approx(
        share, abs=5 * sqrt(share * (1 - share) / kept.numel())
    )
    # Neither a whole round nor a whole neuron is withheld: the draw is made for each coordinate.
    if share == 0.5:
        assert (kept.float().mean((1, 2)) - 0.5).abs().max() < 0.06
        assert kept.flatten(0, 1).any(-1).all()
    assert all(torch.equal(UPDATE[name], before[name]) for name in before)


def test_what_is_withheld_comes_from_the_generator() -> None:
    defence = defences.build("withhold", {})
    one, same, other = (defence.protect_update(UPDATE, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one["a"], same["a"])
    assert not torch.equal(one["a"], other["a"])
