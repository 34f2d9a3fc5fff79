"""Surrogate weights against plain autograd and finite differences, one trial at a time, in float64."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from observing import sent_by
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cosine_similarity, cross_entropy
from trial_networks import CLASSES, group, network

from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.cosine import cosine
from leakbench.attacks.matching.surrogates import moved
from leakbench.attacks.matching.trials import Group
from leakbench.attacks.matching.unknowns.surrogate import surrogate
from leakbench.attacks.matching.unknowns.surrogate_curve import surrogate_curve

LR, EPOCHS, SHARE = 0.3, 3, 0.01
PARTS: dict[str, Callable[..., Any]] = {"surrogate": surrogate, "surrogate-curve": surrogate_curve}


def trained(trials: int = 2, batch: int = 3, epochs: int = EPOCHS) -> tuple[Group, Tensor]:
    """Return trials whose clients took local steps, and their images."""
    model = network("fedavg_cnn", {"width": 2, "hidden": 5}, (8, 8, 3))
    torch.manual_seed(5)
    images = torch.rand(trials, batch, 3, 8, 8, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (trials, batch))
    local = {"lr": LR, "batch_size": None, "epochs": epochs}
    of = group(model, images, labels, observed=sent_by(model, images, labels, "model", local), lr=LR)
    return replace(of, observation=replace(of.observation, kind="model", local=local)), images


def drawn(of: Group, kind: str, **options: Any) -> Any:
    """Return the unknowns of a kind with first values that are not special, in float64."""
    torch.manual_seed(1)
    found = PARTS[kind](share=SHARE, boxed=False, **options)(of, torch.Generator().manual_seed(0))
    start = {name: value.double() for name, value in found.start.items()}
    start["place"] = torch.tensor([0.3, 0.8], dtype=torch.float64) / SHARE
    for name in start:
        if name.startswith("bent."):
            start[name] = torch.randn_like(start[name]) / SHARE
    return replace(found, start=start)


def by_hand(of: Group, kind: str, unknowns: dict[str, Tensor], trial: int) -> dict[str, Tensor]:
    """Return the surrogate weights of one trial by the formulas of the papers."""
    t = unknowns["place"][trial] * SHARE
    out = {}
    for name, w in of.model.named_parameters():
        update = torch.from_numpy(of.observation.updates[name][trial, 0])
        new = w + update
        if kind == "surrogate":
            out[name] = (1 - t) * w + t * new
        else:
            unit = (update**2).mean() ** 0.5
            control = (w + new) / 2 + unit * SHARE * unknowns["bent." + name][trial]
            out[name] = (1 - t) ** 2 * w + 2 * t * (1 - t) * control + t**2 * new
    return out


def loss_by_hand(of: Group, kind: str, unknowns: dict[str, Tensor], trial: int) -> Tensor:
    """Return 1 − cos of the update and the gradient at the surrogate weights, with its graph."""
    weights = by_hand(of, kind, unknowns, trial)
    images = unknowns["images"][trial] * of.deviation + of.mean
    loss = cross_entropy(functional_call(of.model, weights, (images,)), of.labels[trial])
    slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
    sent = [torch.from_numpy(of.observation.updates[name][trial, 0]) for name in weights]
    mine, theirs = (torch.cat([each.flatten() for each in found]) for found in (slopes, sent))
    return 1 - cosine_similarity(mine, -theirs, 0)


@pytest.mark.parametrize("kind", PARTS)
def test_losses_and_derivatives_are_autograds(kind: str) -> None:
    of, _ = trained()
    sought = drawn(of, kind)
    evaluate = sought.through(Objective(of, [cosine()]).evaluate)(torch.arange(2))
    before = {name: p.clone() for name, p in of.model.named_parameters()}
    losses, slopes = evaluate(sought.start)
    assert all(torch.equal(p, before[name]) for name, p in of.model.named_parameters())
    for trial in range(2):
        leaves = {name: value.clone().requires_grad_() for name, value in sought.start.items()}
        expected = loss_by_hand(of, kind, leaves, trial)
        torch.testing.assert_close(losses[trial], expected.detach(), rtol=1e-8, atol=1e-10)
        for name, slope in zip(leaves, torch.autograd.grad(expected, list(leaves.values())), strict=True):
            assert float(slope[trial].norm()) > 0
            torch.testing.assert_close(slopes[name][trial], slope[trial], rtol=1e-6, atol=1e-12)


def test_trials_are_read_by_their_own_rows() -> None:
    """A chunk of the second trial alone has the second update, with several restarts too."""
    of, _ = trained()
    twice = replace(of, restarts=2, labels=of.labels.repeat_interleave(2, 0))
    for name, value in moved(twice, torch.tensor([2, 3, 1])).items():
        update = torch.from_numpy(of.observation.updates[name][:, 0])
        assert torch.equal(value, update[[1, 1, 0]])


def test_places_stay_on_the_way_and_control_points_within_reach() -> None:
    of, _ = trained()
    sought = drawn(of, "surrogate-curve", reach=0.5)
    unknowns = {name: value.clone() for name, value in sought.start.items()}
    unknowns["place"] = torch.tensor([-3.0, 1000.0], dtype=torch.float64)
    bent = [name for name in unknowns if name.startswith("bent.")]
    for name in bent:
        unknowns[name][0] *= 1e-6
    before = {name: unknowns[name].clone() for name in bent}
    sought.project(unknowns)
    assert (unknowns["place"] * SHARE).tolist() == [0.0, 1.0]
    for name, was in before.items():
        assert torch.equal(unknowns[name][0], was[0])
        size = float((unknowns[name][1] * SHARE).square().mean().sqrt())
        assert size == pytest.approx(0.5) or torch.equal(unknowns[name][1], was[1])
        assert size <= 0.5 * (1 + 1e-9)


def test_images_begin_within_their_range_if_they_are_to_stay_there() -> None:
    of, _ = trained()
    start = surrogate()(of, torch.Generator().manual_seed(0)).start
    pixels = of.to_pixels(start["images"])
    assert float(pixels.min()) >= -1e-6
    assert float(pixels.max()) <= 1 + 1e-6
    assert torch.equal(start["place"], torch.full((2,), 500.0))
