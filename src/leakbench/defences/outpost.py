"""Outpost: perturb gradients, ever more seldom, where they are most sensitive (Wang, Hugg and Li, INFOCOM
2023)."""

from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Batch, Defence, Update


def outpost(
    *,
    decay: Annotated[
        float, Field(ge=0, description="β: step i is protected with probability 1 / (1 + β i).")
    ] = 0.125,
    pruned: Annotated[
        float, Field(ge=0, lt=1, description="Share of each tensor that is set to zero, the smallest first.")
    ] = 0.8,
    share: Annotated[
        float, Field(ge=0, le=1, description="φ: share of the most sensitive places that get noise.")
    ] = 0.4,
    scale: Annotated[
        float, Field(ge=0, description="Deviation of the noise for a tensor whose weights have variance 1.")
    ] = 0.8,
    released: Annotated[
        bool,
        Field(
            description="Plato's version since 2024-09 (commit b944697): its loop gives its result to a name "
            "that nothing reads, so each gradient is sent as it is."
        ),
    ] = False,
) -> Defence:
    """Perturb the gradient of a local step i, counted from 1 over all rounds, with probability 1 / (1 + β i).

    The risk of a tensor is the variance of its weights, 1 at most. Coordinates below the quantile `pruned` of
    their tensor's magnitudes become zero. Then normal noise of deviation `scale` times the risk is added
    where the Fisher information, squared gradients averaged over a tensor's first axis, is among the `share`
    that is largest of all tensors. Defaults are those of Plato's code of 2022 (github.com/TL-System/plato),
    whose later versions draw the same noise each time; here it is fresh.
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
