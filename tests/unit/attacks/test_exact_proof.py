"""What exact attacks prove, and how peeling carries the error of what it has subtracted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from observations import observe
from torch import Tensor

from leakbench.attacks import run
from leakbench.attacks.exact.columns import alone, columns_of, last_column
from leakbench.attacks.exact.first_layer import FirstLayer, first_layers
from leakbench.attacks.exact.proof import proof, read_twice
from leakbench.attacks.exact.published import as_published
from leakbench.attacks.exact.solved import samples_of
from leakbench.attacks.exact.span import Span, span
from leakbench.attacks.peel import _carried, peeled
from leakbench.base.errors import Unfit
from leakbench.networks import victims

SHAPE = (8, 8, 3)
Doubled = tuple[Any, Tensor, Tensor]
Dropped = tuple[FirstLayer, Span, Tensor, Tensor]
HALF = {"hidden": [300, 40], "normalise": "half"}


@pytest.fixture
def doubled() -> Doubled:
    """Give a first layer whose gradient is in double precision, its samples and their labels."""
    observation, images = observe("mlp", SHAPE, 5, 1, **HALF)
    _, _, layer = next(first_layers(observation, "test"))
    torch.manual_seed(3)
    samples = (images[0].double().flatten(1) - 0.5) / 0.5
    labels = torch.randint(0, 10, (5,))
    caused = layer.caused(samples)[torch.arange(5), labels]
    return replace(layer, slope=caused.T @ samples, offset=caused.sum(0)), samples, labels


def test_a_near_miss_is_not_proven(doubled: Doubled) -> None:
    layer, samples, labels = doubled
    seen = span(layer.slope, layer.batch)
    exact = torch.zeros(5, dtype=torch.float64)
    found, proven, _ = proof(layer, seen, samples, exact)
    assert proven.all()
    assert torch.equal(found, labels)
    stranger = torch.rand(200, samples.shape[1], dtype=torch.float64) * 2 - 1
    assert not proof(layer, seen, stranger, exact.new_zeros(200))[1].any()
    noisy = samples + 1e-6 * torch.randn(samples.shape, dtype=torch.float64)
    assert not proof(layer, seen, noisy, exact)[1].any()
    mixed = (samples + samples.roll(1, 0)) / 2
    assert not proof(layer, seen, mixed, exact)[1].any()
    # A wrong label is not what the proof finds, whatever comes second.
    wrong = layer.caused(samples)[torch.arange(5), (labels + 1) % 10]
    outside = wrong - (wrong @ seen.left) @ seen.left.T
    assert (outside.norm(dim=1) > 1e-2 * wrong.norm(dim=1)).all()


def hidden_by_dropout(layer: FirstLayer, samples: Tensor, caused: Tensor) -> tuple[FirstLayer, Span, Tensor]:
    """Return a layer with nothing known behind it, its span, and what samples add, [n, rank], as units."""
    hidden = replace(layer, logits=None, slope=caused.T @ samples, offset=caused.sum(0))
    seen = span(hidden.slope, hidden.batch)
    return hidden, seen, torch.nn.functional.normalize(caused @ seen.left, dim=1)


@pytest.fixture
def dropped(doubled: Doubled) -> Dropped:
    """Give a layer behind dropout of one half, its span, the samples and their columns [n, rank]."""
    layer, samples, labels = doubled
    kept = torch.rand(5, 300, generator=torch.Generator().manual_seed(1)) < 0.5
    caused = layer.caused(samples)[torch.arange(5), labels] * kept * 2
    hidden, seen, columns = hidden_by_dropout(layer, samples, caused)
    return hidden, seen, samples, columns


def test_near_misses_behind_dropout_are_not_proven(dropped: Dropped) -> None:
    hidden, seen, samples, _ = dropped
    twice = torch.full((5,), 2)
    assert read_twice(hidden, seen, samples, twice)[1].all()
    # One neuron may hold a mixture that closes what one of its samples closes.
    assert not read_twice(hidden, seen, samples, twice - 1)[1].any()
    misses = [
        samples + 1e-6 * torch.randn(samples.shape, dtype=torch.float64),
        (samples + samples.roll(1, 0)) / 2,
        torch.rand(5, samples.shape[1], dtype=torch.float64) * 2 - 1,
    ]
    assert not read_twice(hidden, seen, torch.cat(misses), torch.full((15,), 2))[1].any()


@pytest.mark.parametrize("share", [1e-6, 0.02, 0.5])
def test_mixed_columns_prove_no_sample_behind_dropout(dropped: Dropped, share: float) -> None:
    hidden, seen, samples, columns = dropped
    found = samples_of(hidden, seen, columns)
    assert torch.cdist(found.samples, samples).amin(0).max() < 1e-6
    # What follows from other columns still lies in the span of the samples, near one of them.
    mixed = torch.nn.functional.normalize(columns + share * columns.roll(1, 0), dim=1)
    assert not len(samples_of(hidden, seen, mixed).samples)
    one = columns.clone()
    one[0] = mixed[0]
    assert not len(samples_of(hidden, seen, one).samples)


def test_a_sample_beside_one_that_opens_fewer_neurons_is_not_proven_behind_dropout(doubled: Doubled) -> None:
    """Every mixture of both is zero where the first is closed."""
    layer, samples, labels = doubled
    caused = layer.caused(samples)[torch.arange(5), labels]
    caused[1] *= caused[0] != 0
    hidden, seen, columns = hidden_by_dropout(layer, samples, caused)
    twice = torch.full((5,), 2)
    assert read_twice(hidden, seen, samples, twice)[1].tolist() == [False, True, True, True, True]
    assert not len(samples_of(hidden, seen, columns).samples)


def test_few_noisy_neurons_tell_no_column(dropped: Dropped) -> None:
    hidden, seen, samples, columns = dropped
    outputs = hidden.weight @ samples[0] + hidden.bias
    length = seen.left.norm(dim=1) * (outputs < -0.01 * outputs.abs().max())
    order = length.argsort(descending=True)
    # By chance a row is zero in one case of 14. Seven equations may leave three to chance, and 60 many more.
    for count, told in ((7, False), (60, True)):
        few = torch.zeros_like(seen.left).index_copy(0, order[:count], seen.left[order[:count]])
        less = seen._replace(left=few, noise=2e-5)
        assert alone(hidden, less, samples[:1], columns[:1]).proven.tolist() == [told]


def test_a_sample_that_is_twice_in_the_batch_is_peeled_once(doubled: Doubled) -> None:
    layer, samples, labels = doubled
    six = replace(layer, batch=6)
    caused = six.caused(samples)[torch.arange(5), labels]
    caused[0] *= 2
    twice = replace(six, slope=caused.T @ samples, offset=caused.sum(0))
    seen = span(twice.slope, twice.batch)
    found = peeled(twice, seen)
    assert len(found.samples) == 5
    assert torch.cdist(found.samples, samples).amin(0).max() < 1e-6


def test_the_last_column_follows_from_the_others(doubled: Doubled) -> None:
    layer, samples, _ = doubled
    seen = span(layer.slope, layer.batch)
    columns, proven = columns_of(layer, seen, samples)
    assert proven.all()
    last = last_column(layer, seen, columns[1:])
    assert len(last) == 1
    assert float((last @ columns[0]).abs()) == pytest.approx(1, abs=1e-9)
    # Of a column that is no sample's, no last one follows.
    assert not len(last_column(layer, seen, torch.randn(4, 5, dtype=torch.float64)))


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
