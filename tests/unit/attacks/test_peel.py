"""Peeling carries the error of what it has subtracted, and has the published rule beside its own."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from observations import observe
from torch import Tensor

from leakbench.attacks import run
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.published import as_published
from leakbench.attacks.exact.span import span
from leakbench.attacks.peel import _carried, peeled
from leakbench.base.errors import Unfit
from leakbench.networks import victims

CLASSES = 10


def sent(seed: int, side: int, neurons: int, batch: int) -> tuple[FirstLayer, Tensor, Tensor]:
    """Return a first layer as in Peeling's Table II, in float64, smooth 8-bit images, and their labels."""
    torch.manual_seed(seed)
    weight = 0.5 * torch.randn(neurons, side**2, dtype=torch.float64)
    last = (2 * torch.rand(neurons, CLASSES, dtype=torch.float64) - 1) * (6 / (neurons + CLASSES)) ** 0.5
    coarse = torch.rand(batch, 1, 4, 4, dtype=torch.float64)
    smooth = torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear", align_corners=True)
    images = smooth.flatten(1) * torch.rand(batch, 1, dtype=torch.float64)
    images = (images.clamp(0, 1) * 255).round() / 255
    labels = torch.randint(0, CLASSES, (batch,))
    nothing = torch.zeros(neurons, dtype=torch.float64)
    ends = (torch.zeros(side**2, dtype=torch.float64), torch.ones(side**2, dtype=torch.float64))
    layer = FirstLayer(
        weight, nothing, weight, nothing, batch, *ends, logits=lambda output: output.relu() @ last
    )
    caused = layer.caused(images)[torch.arange(batch), labels]
    return replace(layer, slope=caused.T @ images, offset=caused.sum(0)), images, labels


def test_rounding_of_early_samples_stops_no_later_ones() -> None:
    layer, images, _ = sent(2, 16, 600, 96)
    seen = span(layer.slope, layer.batch)
    apart = torch.cdist(peeled(layer, seen).samples, images)
    # Where the error was not carried, 83 came back.
    assert int((apart.amin(0) < 1e-3).sum()) == 96
    assert float(apart.amin(1).max()) < 1e-3


def test_steepness_is_how_much_a_part_of_the_gradient_moves() -> None:
    layer, images, labels = sent(0, 6, 100, 12)
    basis = torch.linalg.qr(images.T).Q.T
    told = layer.steepness(images, basis)
    step, every = 1e-6, torch.arange(12)
    moved = torch.stack([layer.caused(images + step * way)[every, labels] for way in basis])
    measured = ((moved - layer.caused(images)[every, labels]) / step).square().mean(0).sqrt()
    # A black image lies on the kink of every ReLU.
    bright = images.any(1)
    assert torch.allclose(told[bright], measured[bright], rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("hidden", [False, True])
def test_the_carried_error_is_that_of_samples_that_are_off(hidden: bool) -> None:
    layer, images, labels = sent(1, 8, 200, 24)
    seen = span(layer.slope, layer.batch)
    share = torch.full((24,), 1e-7, dtype=torch.float64)
    dx = torch.randn(24, len(seen.right), dtype=torch.float64) @ seen.right
    length = images.norm(dim=1, keepdim=True)
    off = images + share[:, None] * length * torch.nn.functional.normalize(dx, dim=1)
    true, near = (layer.caused(each)[torch.arange(24), labels] for each in (images, off))
    if hidden:
        # Behind dropout the column is known, and its scale follows from the sample.
        near = true / ((off @ seen.right.T) * (true @ seen.left) / seen.values).sum(1, keepdim=True)
        layer = replace(layer, logits=None)
    left = near.T @ off - true.T @ images
    measured = left.norm(dim=1) / length.mean()
    told = _carried(layer, seen, off, near, share)
    live = told > 0
    ratio = (measured[live] / told[live]).median()
    assert 1 / 3 < float(ratio) < 3


def test_the_published_rule_accepts_true_samples_with_their_labels() -> None:
    layer, images, labels = sent(2, 16, 600, 96)
    found = as_published(layer)
    near = torch.cdist(found.samples, images)
    assert float(near.amin(1).max()) < 1e-3
    assert torch.equal(labels[near.argmin(1)], found.labels)
    assert len(near.argmin(1).unique()) == len(found.samples) > 10


def test_the_published_rule_is_named_by_an_attack() -> None:
    observation, images = observe("mlp", (8, 8, 3), 4, 1, hidden=[600], precision="float64")
    entry = {"module": "peel", "parameters": {"rule": "published"}}
    found = run(entry, observation, torch.Generator().manual_seed(0))
    apart = torch.cdist(found.images[0, 0].flatten(1), images[0].flatten(1))
    assert found.usable.all()
    assert float(apart.amin(0).max()) < 1e-4
    hidden, _ = observe("fcnn", (14, 14, 1), 5, 1, dropout=0.5, width=300)
    with pytest.raises(Unfit, match="needs no dropout"):
        run(entry, hidden, torch.Generator().manual_seed(0))


def test_the_network_has_the_weights_that_the_authors_draw() -> None:
    """The order of the draws, on a small scale: magnitudes, signs, the next neuron, and the last layer."""
    network = victims.build("peeling", (2, 3, 2), 4, {"seed": 55726})
    rng = np.random.default_rng(55726)
    drawn = rng.normal(0, 0.5, 12)
    signs = np.where(rng.random(12) < 0.5, 1, -1)
    weights = network.state_dict()
    first = weights["network.dense1.weight"][0].view(2, 2, 3).permute(1, 2, 0).flatten()
    assert np.allclose(first.numpy(), np.abs(drawn) * signs)
    assert weights["network.dense1.weight"].dtype == torch.float64
    assert not weights["network.dense1.bias"].any()
    assert float(weights["network.dense2.weight"].abs().max()) < (6 / 1004) ** 0.5
    assert float(weights["network.dense1.weight"].std()) == pytest.approx(0.5, abs=0.02)
