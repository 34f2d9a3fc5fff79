"""Defences: each changes what it says, round by round, and nothing else."""

from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from leakbench import defences

# No coordinate of it is zero.
UPDATE = {"a": 1 + torch.rand(3, 40, 50), "b": 1 + torch.rand(3, 40)}


def test_no_defence_hands_on_the_very_same_objects() -> None:
    defence, model, rng = defences.build("none", {}), nn.Linear(1, 1), torch.Generator().manual_seed(0)
    state = rng.get_state()
    assert defence.model(model, rng) is model
    assert defence.update(UPDATE, rng) is UPDATE
    assert torch.equal(rng.get_state(), state)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_withheld_coordinates_are_zero_and_the_rest_is_untouched(share: float) -> None:
    defence = defences.build("withhold", {"share": share})
    before = {name: value.clone() for name, value in UPDATE.items()}
    sent = defence.update(UPDATE, torch.Generator().manual_seed(0))
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
    one, same, other = (defence.update(UPDATE, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one["a"], same["a"])
    assert not torch.equal(one["a"], other["a"])


def protected(
    module: str, seed: int = 0, update: dict[str, Tensor] = UPDATE, **parameters: Any
) -> dict[str, Tensor]:
    return defences.build(module, parameters).update(update, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("module", "deviation", "kurtosis"), [("gaussian", 1, 3), ("laplacian", sqrt(2), 6)])
def test_noise_has_its_scale_and_its_law(module: str, deviation: float, kurtosis: float) -> None:
    update = {"a": torch.rand(2, 300, 400)}
    noise = (protected(module, update=update, scale=0.05)["a"] - update["a"]).double() / 0.05
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.std()) == pytest.approx(deviation, rel=0.02)
    assert float((noise**4).mean() / noise.var() ** 2) == pytest.approx(kurtosis, rel=0.06)


@pytest.mark.parametrize("module", ["gaussian", "laplacian"])
def test_noise_is_the_generators_alone(module: str) -> None:
    one, same, other = (protected(module, seed, scale=1.0) for seed in (1, 1, 2))
    assert torch.equal(one["a"], same["a"])
    assert not torch.equal(one["a"], other["a"])


def test_pruning_keeps_the_largest_of_each_round_and_tensor() -> None:
    update = {
        "a": torch.tensor([[[1.0, -9.0], [3.0, 0.5]], [[0.1, 0.2], [-0.4, 0.3]]]),
        "b": torch.tensor([[-2.0], [5.0]]),
    }
    sent = protected("prune", update=update, share=0.5)
    assert sent["a"].tolist() == [[[0, -9], [3, 0]], [[0, 0], [pytest.approx(-0.4), pytest.approx(0.3)]]]
    assert torch.equal(sent["b"], update["b"])
    assert (protected("prune", share=0.1)["a"] != 0).flatten(1).sum(1).tolist() == [200] * 3


def test_clipping_bounds_the_norm_over_all_tensors_and_keeps_the_direction() -> None:
    update = {"a": torch.tensor([[3.0, 0.0], [0.3, 0.0]]), "b": torch.tensor([[4.0], [0.4]])}
    sent = protected("clip", update=update, norm=1.0)
    torch.testing.assert_close(sent["a"], torch.tensor([[0.6, 0.0], [0.3, 0.0]]))
    torch.testing.assert_close(sent["b"], torch.tensor([[0.8], [0.4]]))
    nothing = {"a": torch.zeros(1, 2)}
    assert torch.equal(protected("clip", update=nothing, norm=1.0)["a"], nothing["a"])


def test_signs_keep_the_mean_magnitude_and_nothing_else() -> None:
    sent = protected("sign", update={"a": torch.tensor([[1.0, -3.0, 0.0, 8.0], [1, 1, 1, 1]])})
    assert sent["a"].tolist() == [[3, -3, 0, 3], [1, 1, 1, 1]]


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_quantised_values_are_few_and_near(bits: int) -> None:
    update = {"a": torch.randn(2, 50, 60), "flat": torch.full((2, 5), 0.7)}
    sent = protected("quantise", update=update, bits=bits)
    for before, after in zip(update["a"], sent["a"], strict=True):
        spread = float(before.max() - before.min())
        assert len(after.unique()) <= 2**bits
        assert float((after - before).abs().max()) <= spread / (2**bits - 1) / 2 * 1.001
        assert float(after.min()) == float(before.min())
    torch.testing.assert_close(sent["flat"], update["flat"])
