"""Trap weights (Boenisch et al., "When the Curious Abandon Honesty", EuroS&P 2023): rows that few open."""

from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from leakbench.federation.servers import Held, Written, trapped


@torch.no_grad()
def trap_weights(
    model: nn.Module,
    held: Held,
    *,
    deviation: Annotated[float, Field(gt=0)] = 0.5,
    scale: Annotated[float, Field(gt=0, le=1)] = 0.95,
) -> Written:
    """Write rows of the first dense layer whose results are negative for most samples.

    One half of a row's inputs, chosen at random, have the weights -|N(0, deviation²)|. The other half have
    the same numbers in another order, times -`scale`. The bias is zero. So a neuron is open for the few
    samples whose second half is brighter than the first by more than a factor of 1/`scale`. A neuron that is
    open for a single sample holds this sample. The source is the paper's section V; its defaults are 0.5 and
    0.95.

    deviation: standard deviation of the normal numbers whose magnitudes are the weights.
    scale: how much smaller the weights of the second half are, in (0, 1].

    Raises UserError as `trapped` does.
    """
    layer, _ = trapped(model, held.shape, "trap-weights")
    neurons, inputs = layer.weight.shape
    half = inputs // 2
    size = torch.randn(neurons, half, generator=held.rng).abs() * deviation
    weight = torch.zeros(neurons, inputs)
    for row, negative in enumerate(size):
        order = torch.randperm(inputs, generator=held.rng)
        other = negative[torch.randperm(half, generator=held.rng)]
        weight[row, order[:half]], weight[row, order[half : 2 * half]] = -negative, scale * other
    layer.weight.copy_(weight)
    layer.bias.zero_()
    return Written()
