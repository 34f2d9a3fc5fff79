"""RMSprop with momentum."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.matching.optimiser import Evaluate, Make, kept
from leakbench.tensors import Tensors


def rmsprop(
    *, lr: Annotated[float, Field(gt=0)] = 0.1, momentum: Annotated[float, Field(ge=0, lt=1)] = 0.99
) -> Make:
    """Return RMSprop as torch has it, with a mean of squares that forgets 1 % a step.

    lr: the learning rate, above 0. momentum: from 0 to below 1. Source: GRNN's code.
    """
    return lambda iterations: RMSprop(lr, momentum)


class RMSprop:
    """RMSprop with momentum, as torch's (GRNN uses it so)."""

    def __init__(self, lr: float, momentum: float) -> None:
        self.lr, self.momentum = lr, momentum
        self.copies, self.population = 2, 1
        self.state: Tensors = {}

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the trials in place, but not those whose loss is no number; return the losses [trials]
        before."""
        losses, gradients = evaluate(unknowns)
        lost = ~losses.isfinite()
        stay = {name: value[lost] for name, value in unknowns.items()} if lost.any() else {}
        own = [kept(self.state, name, value, ("square", "momentum")) for name, value in unknowns.items()]
        squares, momenta = ([each[place] for each in own] for place in (0, 1))
        _fused_momentum(momenta, squares, [gradients[name].contiguous() for name in unknowns], self.momentum)
        for value, momentum in zip(unknowns.values(), momenta, strict=True):
            value.sub_(momentum, alpha=self.lr)
        for name, before in stay.items():
            unknowns[name][lost] = before
        return losses


def _fused_momentum(
    momenta: list[Tensor], squares: list[Tensor], gradients: list[Tensor], decay: float
) -> None:
    """Take RMSprop's step of each momentum in one pass instead of five: square ← 0.99 square + 0.01
    gradient², momentum ← decay · momentum + gradient / (√square + 1e-8).

    torch fuses no RMSprop, but AdamW without a mean of its own is one, with the momentum as what it moves:
    `decay` is its weight decay, at a learning rate of −1, after a number of steps that leaves no bias to
    correct.
    """
    late = gradients[0].new_tensor(1e9)
    torch._fused_adamw_(
        momenta, gradients, gradients, squares, [], [late] * len(momenta), amsgrad=False, maximize=False,
        lr=-1.0, beta1=0.0, beta2=0.99, weight_decay=decay - 1, eps=1e-8,
    )  # fmt: skip
