"""Normalisation by each trial's own images, and its first and second derivatives, against torch's batch norm
and differences."""

import pytest
import torch
from torch import nn

from leakbench.networks.batch_statistics import bent, by_trial, pulled, standardise, standardised

TRIALS, BATCH, CHANNELS, EPS = 3, 2, 4, 1e-2


def drawn(seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(TRIALS * BATCH, CHANNELS, 3, 2, dtype=torch.float64, generator=rng)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_each_trial_is_a_batch_of_its_own(layout: torch.memory_format) -> None:
    x = drawn(0).contiguous(memory_format=layout)
    found = standardised(x, TRIALS, EPS)
    each = [nn.functional.batch_norm(part, None, None, training=True, eps=EPS) for part in x.split(BATCH)]
    torch.testing.assert_close(found, torch.cat(each))
    assert found.is_contiguous(memory_format=layout)


def test_both_derivatives_are_those_of_differences() -> None:
    x = drawn(0).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: standardised(x, TRIALS, EPS), x)
    assert torch.autograd.gradgradcheck(lambda x: standardised(x, TRIALS, EPS), x)


def test_the_map_and_its_bend_are_their_own_transposes() -> None:
    (normed, scale), u, v = standardise(drawn(0), TRIALS, EPS), drawn(1), drawn(2)
    torch.testing.assert_close((pulled(u, normed, scale) * v).sum(), (pulled(v, normed, scale) * u).sum())
    torch.testing.assert_close(bent(u, v, normed, scale), bent(v, u, normed, scale))


def test_a_network_takes_trials_apart_only_while_it_is_told_to() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.BatchNorm2d(CHANNELS, track_running_stats=False),
        nn.BatchNorm2d(CHANNELS),
        nn.BatchNorm2d(CHANNELS, track_running_stats=False, affine=False),
    )
    model = model.double().eval()
    x, before = drawn(0), model(drawn(0))
    with by_trial(model, TRIALS):
        apart = model(x)
    torch.testing.assert_close(apart, torch.cat([model(part) for part in x.split(BATCH)]))
    assert not torch.allclose(apart, before)
    torch.testing.assert_close(model(x), before)
    assert {type(layer) for layer in model} == {nn.BatchNorm2d}
    assert "normed" not in vars(model[0])
