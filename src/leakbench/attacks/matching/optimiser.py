"""What the loop requires of an optimiser of many independent trials, each a row of every unknown."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from leakbench.base.tensors import Tensors

# Takes unknowns; returns the losses [trials] and the gradient in each unknown.
Evaluate = Callable[[Tensors], tuple[Tensor, Tensors]]


class Optimiser(Protocol):
    """An optimiser that takes one step for all trials at a time.

    copies: the size of the state, in multiples of the size of the unknowns.
    population: the number of candidates that each trial has evaluated at a step, without gradients; 1 for an
    optimiser that steps by gradients.
    state: everything that a resumed run needs, with the trials as the first axis.
    """

    copies: int
    population: int
    state: Tensors

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the unknowns of all trials in place, and return the losses [trials] before the step.

        A trial whose loss is NaN or infinite does not move.
        """


# Takes the number of iterations over which a learning rate falls; returns a fresh optimiser.
Make = Callable[[int], Optimiser]


def stepped(
    unknowns: Tensors, evaluate: Evaluate, state: Tensors, parts: Sequence[str], move: Callable[..., None]
) -> Tensor:
    """Take a step by gradients, `move(values, gradients, *parts of the state)`, and return the losses."""
    losses, gradients = evaluate(unknowns)
    lost = ~losses.isfinite()
    stay = {name: value[lost] for name, value in unknowns.items()} if lost.any() else {}
    for name, value in unknowns.items():
        for part in parts:
            if f"{name}/{part}" not in state:
                state[f"{name}/{part}"] = torch.zeros_like(value)
    own = ([state[f"{name}/{part}"] for name in unknowns] for part in parts)
    # torch's fused steps read all tensors in the order of memory.
    move(list(unknowns.values()), [gradients[name].contiguous() for name in unknowns], *own)
    for name, before in stay.items():
        unknowns[name][lost] = before
    return losses
