"""Proofs of exact attacks: samples of the batch pass, and near misses do not."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from observations import observe
from torch import Tensor

from leakbench.attacks.peel import peeled
from leakbench.exact.columns import columns_of, last_column
from leakbench.exact.first_layer import first_layers
from leakbench.exact.proof import proof
from leakbench.exact.span import span

SHAPE = (8, 8, 3)
HALF = {"hidden": [300, 40], "normalise": "half"}


@pytest.fixture
def doubled() -> tuple[Any, Tensor, Tensor]:
    """Give a first layer whose gradient is in double precision, its samples and their labels."""
    observation, images = observe("mlp", SHAPE, 5, 1, **HALF)
    _, _, layer = next(first_layers(observation, "test"))
    torch.manual_seed(3)
    samples = (images[0].double().flatten(1) - 0.5) / 0.5
    labels = torch.randint(0, 10, (5,))
    caused = layer.caused(samples)[torch.arange(5), labels]
    exact = {"slope": caused.T @ samples, "offset": caused.sum(0)}
    return type(layer)(**vars(layer) | exact), samples, labels


def test_a_near_miss_is_not_proven(doubled: tuple[Any, Tensor, Tensor]) -> None:
    layer, samples, labels = doubled
    seen = span(layer.slope, layer.batch)
    assert seen is not None
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


def test_near_misses_behind_dropout_are_not_proven(doubled: tuple[Any, Tensor, Tensor]) -> None:
    layer, samples, _ = doubled
    hidden = replace(layer, logits=None)
    seen = span(hidden.slope, hidden.batch)
    assert seen is not None
    exact = torch.zeros(5, dtype=torch.float64)
    assert proof(hidden, seen, samples, exact)[1].all()
    misses = [
        samples + 1e-6 * torch.randn(samples.shape, dtype=torch.float64),
        (samples + samples.roll(1, 0)) / 2,
        torch.rand(5, samples.shape[1], dtype=torch.float64) * 2 - 1,
    ]
    assert not proof(hidden, seen, torch.cat(misses), exact.new_zeros(15))[1].any()


def test_a_sample_that_is_twice_in_the_batch_is_peeled_once(doubled: tuple[Any, Tensor, Tensor]) -> None:
    layer, samples, labels = doubled
    six = replace(layer, batch=6)
    caused = six.caused(samples)[torch.arange(5), labels]
    caused[0] *= 2
    twice = replace(six, slope=caused.T @ samples, offset=caused.sum(0))
    seen = span(twice.slope, twice.batch)
    assert seen is not None
    found = peeled(twice, seen)
    assert len(found.samples) == 5
    assert torch.cdist(found.samples, samples).amin(0).max() < 1e-6


def test_the_last_column_follows_from_the_others(doubled: tuple[Any, Tensor, Tensor]) -> None:
    layer, samples, _ = doubled
    seen = span(layer.slope, layer.batch)
    assert seen is not None
    columns, proven = columns_of(layer, seen, samples)
    assert proven.all()
    last = last_column(layer, seen, columns[1:])
    assert len(last) == 1
    assert float((last @ columns[0]).abs()) == pytest.approx(1, abs=1e-9)
    # Of a column that is no sample's, no last one follows.
    assert not len(last_column(layer, seen, torch.randn(4, 5, dtype=torch.float64)))
