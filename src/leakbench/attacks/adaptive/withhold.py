"""Against a client that withholds coordinates: match those that were sent, and collect them over rounds."""

from functools import reduce

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors
from leakbench.observations.adaptation import Adaptation, Mechanism, by_parameter


def arrived(observed: Tensor) -> Tensor:
    """Return which coordinates were sent, bool [trials, *shape].

    A zero counts as withheld, unless a whole slice is zero (a neuron, a filter, or all that is read of a
    black pixel), which chance would not withhold.
    """
    there = observed != 0
    dims = range(1, observed.dim())
    if len(dims) == 1:
        return there
    never = [~there.any([other for other in dims if other != dim], keepdim=True) for dim in dims]
    return reduce(torch.logical_or, never, there)


def withhold() -> Adaptation:
    """Leave out what was not sent.

    Over rounds of one local set, each coordinate is taken from the rounds that sent it.
    """

    def gathered(seen: Tensor) -> Tensor:
        return seen.sum(0) / (seen != 0).sum(0).clamp_min(1)

    def mechanism(observed: Tensors) -> Mechanism:
        there = {name: arrived(value) for name, value in observed.items()}
        return by_parameter(lambda name, value: torch.where(there[name], value, 0))

    return Adaptation(pooled=gathered, mechanism=mechanism)
