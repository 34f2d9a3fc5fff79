"""Soliton biases (Shariati and Alambardar Meybodi, arXiv:2609.09659).

Each neuron is open for as many samples as an erasure code asks for.
"""

from math import floor, log, sqrt
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.federation.servers import Held, Written, trapped


def degrees(batch: int, spread: float, failure: float) -> Tensor:
    """Return the probability of each degree 1 … batch, float64 [batch] (Luby's robust soliton)."""
    ripple = spread * log(batch / failure) * sqrt(batch)
    order = torch.arange(1, batch + 1, dtype=torch.float64)
    ideal = 1 / (order * (order - 1)).clamp_min(1)
    ideal[0] = 1 / batch
    extra = torch.zeros(batch, dtype=torch.float64)
    peak = min(max(floor(batch / ripple), 1), batch)
    extra[: peak - 1] = ripple / (order[: peak - 1] * batch)
    extra[peak - 1] = max(ripple * log(ripple / failure) / batch, 0.0)
    chance = ideal + extra
    return chance / chance.sum()


@torch.no_grad()
def soliton(
    model: nn.Module,
    held: Held,
    *,
    deviation: Annotated[float, Field(gt=0)] = 0.5,
    spread: Annotated[float, Field(gt=0)] = 0.05,
    failure: Annotated[float, Field(gt=0, lt=1)] = 0.4,
) -> Written:
    """Draw each neuron's weights, and set its bias so that a drawn number of a batch's samples opens it.

    A server that holds samples places the bias between two of the neuron's outputs on one batch of them
    (Soliton-Data). A server that holds none takes each feature for uniform on [0, 1] (Soliton-Free). The
    defaults come from the paper's section on active variants.

    deviation: standard deviation of the independent normal weights of the first dense layer.
    spread: the constant c of the robust soliton distribution, from which the number of open samples is drawn.
    failure: the δ of this distribution.

    Raises UserError as `trapped` does.
    """
    layer, read = trapped(model, held.shape, "soliton")
    neurons, inputs = layer.weight.shape
    weight = deviation * torch.randn(neurons, inputs, generator=held.rng)
    chance = degrees(held.batch, spread, failure)
    degree = torch.multinomial(chance, neurons, replacement=True, generator=held.rng) + 1
    if held.samples is None:
        mean, spread_of = weight.sum(1) / 2, (weight.square().sum(1) / 12).sqrt()
        share = (degree / held.batch).clamp(1 / (2 * held.batch), 1 - 1 / (2 * held.batch))
        bias = -mean - spread_of * torch.special.ndtri(1 - share).to(weight.dtype)
    else:
        own = read(held.samples)
        own = own[torch.randperm(len(own), generator=held.rng)[: held.batch]].to(weight.dtype)
        outputs = (own @ weight.T).sort(0, descending=True).values
        after = degree.clamp_max(len(own) - 1)
        column = torch.arange(neurons)
        bias = -(outputs[degree.clamp_max(len(own)) - 1, column] + outputs[after, column]) / 2
    layer.weight.copy_(weight)
    layer.bias.copy_(bias)
    return Written()
