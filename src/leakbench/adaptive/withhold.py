"""Against a client that withholds coordinates: match those that came, and gather them over the rounds."""

from functools import reduce

import torch
from torch import Tensor

from leakbench.adaptive import Adaptation, Mechanism
from leakbench.tensors import Tensors


def arrived(observed: Tensor) -> Tensor:
    """Return which coordinates came, bool [trials, *shape].

    A zero was withheld, but where a whole neuron or filter is zero, or all that is read of one place, as of a
    pixel that is black: chance would not withhold it all.
    """
    there = observed != 0
    dims = range(1, observed.dim())
    if len(dims) == 1:
        return there
    never = [~there.any([other for other in dims if other != dim], keepdim=True) for dim in dims]
    return reduce(torch.logical_or, never, there)


def withhold() -> Adaptation:
    """Leave out what was not sent; over rounds of one local set take each coordinate from those that sent
    it."""

    def gathered(seen: Tensor) -> Tensor:
        return seen.sum(0) / (seen != 0).sum(0).clamp_min(1)

    def mechanism(observed: Tensors) -> Mechanism:
        there = {name: arrived(value) for name, value in observed.items()}
        return lambda found, dummies: {
            name: torch.where(there[name], value, 0) for name, value in found.items()
        }

    return Adaptation(pooled=gathered, mechanism=mechanism)
