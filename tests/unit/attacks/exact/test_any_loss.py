"""Samples of an update of any loss, where all neurons of a network with one score mix them alike."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from leakbench.attacks.exact import any_loss
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.span import span
from leakbench.attacks.peel import peeled

BATCH = 8


def sent(seed: int, scores: int = 1, neurons: int = 200) -> tuple[FirstLayer, Tensor, Tensor]:
    """Return a first layer with its gradient in float32 for a loss of chance, samples, and columns."""
    torch.manual_seed(seed)
    alike = torch.rand(1, 36) * torch.linspace(0.3, 1, BATCH)[:, None]
    samples = (alike + 0.15 * torch.rand(BATCH, 36)).clamp(0, 1).double()
    weight, bias = (torch.rand(neurons, size).double() / 3 - 1 / 6 for size in (36, 1))
    last = torch.rand(neurons, scores).double() - 0.5
    ends = torch.zeros(36).double(), torch.ones(36).double()
    empty = weight[:, 0] * 0
    layer = FirstLayer(
        weight, bias[:, 0], weight, empty, BATCH, *ends, lambda z: z.relu() @ last, plain=False
    )
    opened = (samples @ weight.T + bias[:, 0] > 0).double()
    columns = opened * (torch.randn(BATCH, scores).double() @ last.T) / BATCH
    slope, offset = (columns.T @ samples).float().double(), columns.sum(0).float().double()
    return replace(layer, slope=slope, offset=offset), samples, columns


@pytest.mark.parametrize(("scores", "wrong"), [(1, 3), (2, 0), (3, 0)])
def test_what_is_proven_is_a_sample(scores: int, wrong: int) -> None:
    """With one score, a mixture may pass where columns are missing. All batches together have 96 samples."""
    proven, false = 0, 0
    for seed in range(12):
        layer, samples, _ = sent(seed, scores)
        seen = span(layer.slope, BATCH)
        assert seen is not None
        found = peeled(layer, seen)
        assert (found.labels == -1).all()
        off = torch.cdist(found.samples, samples).amin(1) > 1e-3
        proven, false = proven + len(off), false + int(off.sum())
    assert false <= wrong
    assert proven >= 40


def test_a_column_is_that_of_its_sample_alone() -> None:
    layer, samples, columns = sent(0, scores=3)
    seen = span(layer.slope, BATCH)
    assert seen is not None
    others = torch.rand(BATCH, 36).double()
    found, proven = any_loss.columns_of(layer, seen, torch.cat([samples, others]))
    assert proven.tolist() == [True] * BATCH + [False] * BATCH
    alike = torch.cosine_similarity(found[:BATCH] @ seen.left.T, columns)
    assert float(alike.abs().min()) > 1 - 1e-6


def test_the_last_column_follows_from_the_others() -> None:
    layer, samples, _ = sent(0, scores=2)
    seen = span(layer.slope, BATCH)
    assert seen is not None
    own = any_loss.columns_of(layer, seen, samples)[0]
    (found,) = any_loss.last_column(layer, seen, own[1:])
    assert float(torch.cosine_similarity(found, own[0], dim=0).abs()) > 1 - 1e-6
    assert any_loss.of_any_loss(layer, seen, samples, own).all()
    # A mixture has the column of one of its samples, so that another sample's column would be wrong.
    mixed = own.clone()
    mixed[1] += 0.1 * own[0]
    assert not any_loss.of_any_loss(layer, seen, samples, mixed).all()
