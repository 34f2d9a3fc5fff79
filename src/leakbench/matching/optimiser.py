"""What the loop asks of an optimiser of many independent trials.

Unknowns are one flat matrix [trials, unknowns] for each named part (images, labels), so that a trial is a
row.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from leakbench.tensors import Tensors

# Unknowns in; losses [trials] and the gradients of each out.
Evaluate = Callable[[Tensors], tuple[Tensor, Tensors]]


class Optimiser(Protocol):
    """One step for all trials; `state` holds everything that a resumed run needs, trials first.

    copies: how many times the unknowns' size the state takes. population: the number of candidates that each
    trial has valued at a step, without gradients; 1 for an optimiser that steps by gradients.
    """

    copies: int
    population: int
    state: Tensors

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the trials in place, but not those whose loss is no number; return the losses [trials]
        before."""


# The number of iterations over which a learning rate falls in; a fresh optimiser out.
Make = Callable[[int], Optimiser]


def kept(state: Tensors, name: str, value: Tensor, parts: Sequence[str]) -> list[Tensor]:
    """Return the parts of an unknown's state, zeros at first."""
    for part in parts:
        if f"{name}/{part}" not in state:
            state[f"{name}/{part}"] = torch.zeros_like(value)
    return [state[f"{name}/{part}"] for part in parts]
