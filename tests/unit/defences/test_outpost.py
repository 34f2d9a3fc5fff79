"""Outpost: when it perturbs, what it perturbs, and what the released version does."""

from typing import Any

import pytest
import torch
from torch import nn

from leakbench import defences
from leakbench.attacks.adaptive.outpost import outpost as known
from leakbench.defences import Batch, Update

IMAGES, LABELS = torch.rand(3, 20, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2])


def batch(memory: Update) -> Batch:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    return Batch(model, weights, IMAGES, LABELS, memory=memory)


def sent(steps: int, seed: int = 0, **parameters: Any) -> list[Update]:
    """Return the gradients of so many steps of one client; the weights stay as they are."""
    defence = defences.build("outpost", parameters)
    memory: Update = {}
    rng = torch.Generator().manual_seed(seed)
    return [defence.examples(batch(memory), rng) for _ in range(steps)]


def changed(update: Update) -> bool:
    plain = batch({}).mean()
    return not all(torch.equal(value, plain[name]) for name, value in update.items())


def test_step_i_is_protected_with_probability_one_over_one_plus_beta_i() -> None:
    steps, runs = 24, 30
    found = sum(torch.tensor([changed(each) for each in sent(steps, seed)]) for seed in range(runs)) / runs
    wanted = 1 / (1 + 0.125 * torch.arange(1, steps + 1))
    # Four deviations of a mean over eight steps.
    assert (found - wanted).view(3, 8).mean(1).abs().max() < 4 * 0.5 / (8 * runs) ** 0.5
    assert found[:8].mean() > found[-8:].mean() + 0.2


def test_a_protected_gradient_is_pruned_and_noised_where_it_is_sensitive() -> None:
    (pruned,) = sent(1, decay=0.0, share=0.0)
    plain = batch({}).mean()
    for name, value in pruned.items():
        zeros = float((value == 0).double().mean())
        assert zeros == pytest.approx(0.8, abs=0.5 / value.numel() + 1e-9), name
        kept = value != 0
        assert torch.equal(value[kept], plain[name][kept])
        assert plain[name][kept].abs().min() > plain[name][~kept].abs().max()
    (noised,) = sent(1, decay=0.0)
    drawn = {name: value - pruned[name] for name, value in noised.items()}
    places = torch.cat([(value != 0).double().amax(0).flatten() for value in drawn.values()])
    assert float(places.mean()) == pytest.approx(0.4, abs=0.05)
    # The second layer's gradients are the larger ones, so it has the noise.
    weights, noise = batch({}).weights["2.weight"], drawn["2.weight"][drawn["2.weight"] != 0]
    assert len(noise) > 50
    assert float(noise.std()) == pytest.approx(0.8 * float(weights.var()), rel=0.2)


def test_the_adaptive_attacker_takes_the_rounds_without_perturbation() -> None:
    seen, plain = torch.stack([each["0.weight"] for each in sent(40)]), batch({}).mean()["0.weight"]
    torch.testing.assert_close(known().pooled(seen), plain)
    assert float((seen.mean(0) - plain).norm() / plain.norm()) > 0.05
    # The released version changes nothing.
    assert not any(changed(each) for each in [*sent(20, released=True), *sent(20, decay=1e9)])
