"""RMSprop with momentum."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate, Make, stepped
from leakbench.base.tensors import Tensors


def rmsprop(
    *, lr: Annotated[float, Field(gt=0)] = 0.1, momentum: Annotated[float, Field(ge=0, lt=1)] = 0.99
) -> Make:
    """Return RMSprop as torch has it, with a mean of squares that forgets 1 % a step (GRNN's code).

    lr: the learning rate, above 0.
    momentum: the share of the momentum that stays at each step, from 0 to below 1.
    """
    return lambda iterations: RMSprop(lr, momentum)


class RMSprop:
    """RMSprop with momentum, as torch has it and GRNN uses it."""

    def __init__(self, lr: float, momentum: float) -> None:
        self.lr, self.momentum = lr, momentum
        self.copies, self.population = 2, 1
        self.state: Tensors = {}

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        return stepped(unknowns, evaluate, self.state, ("square", "momentum"), self.move)

    def move(
        self, values: list[Tensor], given: list[Tensor], squares: list[Tensor], momenta: list[Tensor]
    ) -> None:
        """Take a step, which torch does not fuse, in one pass instead of five.

        square ← 0.99 square + 0.01 gradient², momentum ← decay · momentum + gradient / (√square + 1e-8):
        AdamW makes this step if it has no mean of its own, moves the momentum, takes the decay by its weight
        decay, at a learning rate of −1 and after a billion steps, when no bias is left to correct.
        """
        torch._fused_adamw_(
            momenta, given, given, squares, [], [given[0].new_tensor(1e9)] * len(momenta), amsgrad=False,
            maximize=False, lr=-1.0, beta1=0.0, beta2=0.99, weight_decay=self.momentum - 1, eps=1e-8,
        )  # fmt: skip
        for value, momentum in zip(values, momenta, strict=True):
            value.sub_(momentum, alpha=self.lr)
