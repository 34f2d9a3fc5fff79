"""Outpost (Wang, Hugg and Li, INFOCOM 2023): perturb sensitive gradients, less often as training goes on."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Batch, Defence, Update

# Thousands of calls of torch for each sample, whose own gradient it changes (`catalogue.costs`).
COST = 0.1


def outpost(
    *,
    decay: Annotated[float, Field(ge=0)] = 0.125,
    pruned: Annotated[float, Field(ge=0, lt=1)] = 0.8,
    share: Annotated[float, Field(ge=0, le=1)] = 0.4,
    scale: Annotated[float, Field(ge=0)] = 0.8,
    released: bool = False,
) -> Defence:
    """Perturb the gradient of a local step with a probability that falls from step to step.

    Step i, counted from 1 over all rounds, is protected with probability 1 / (1 + β i). First the coordinates
    below the quantile `pruned` of their tensor's magnitudes become zero. Then normal noise is added where the
    Fisher information is among the `share` that is largest over all tensors. The Fisher information is the
    squared gradient, averaged over a tensor's first axis. The noise has the standard deviation `scale` times
    the risk of the tensor, which is the variance of its weights, 1 at most. The defaults are those of Plato's
    code of 2022 (github.com/TL-System/plato). Its later versions draw the same noise each time; here the
    noise is fresh.

    decay: β, in 1 / (1 + β i).
    pruned: share of each tensor that is set to zero, the smallest coordinates first.
    share: φ, the share of the most sensitive coordinates that get noise.
    scale: standard deviation of the noise for a tensor whose weights have variance 1.
    released: do as Plato's version since 2024-09 (commit b944697). Its loop assigns its result to a name that
    nothing reads, so each gradient is sent as it is.
    """

    def examples(batch: Batch, rng: torch.Generator) -> Update:
        gradient = batch.mean()
        step = int(batch.memory.get("step", torch.zeros(()))) + 1
        batch.memory["step"] = torch.tensor(float(step))
        if released or float(torch.rand((), generator=rng)) >= 1 / (1 + decay * step):
            return gradient
        fisher = {name: value.square().mean(0) for name, value in gradient.items()}
        every = torch.cat([value.flatten() for value in fisher.values()])
        least = every.sort(descending=True).values[max(0, round(share * len(every)) - 1)]
        out = {}
        for name, value in gradient.items():
            size = value.abs().flatten()
            bound = size.sort().values[min(len(size) - 1, round(pruned * len(size)))]
            kept = torch.where(value.abs() < bound, 0.0, value)
            risk = float(batch.weights[name].var(unbiased=False).clamp_max(1))
            noise = scale * risk * torch.randn(value.shape, generator=rng).to(value.device)
            out[name] = kept + torch.where(fisher[name] >= least, noise, 0.0) if share else kept
        return out

    return Defence(examples=examples)
