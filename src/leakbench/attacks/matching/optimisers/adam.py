"""Adam, with the options of Inverting Gradients."""

from functools import partial
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate, Make, stepped
from leakbench.base.tensors import Tensors

Many = list[Tensor]
# The shares of the run after which the learning rate falls to a tenth.
DECAY_AT = (3 / 8, 5 / 8, 7 / 8)


def adam(
    *,
    lr: Annotated[float, Field(gt=0)] = 0.1,
    signed: bool = False,
    decay: bool | Annotated[float, Field(gt=0, le=1)] = False,
) -> Make:
    """Return Adam with torch's moments (0.9, 0.999), by Kingma and Ba 2015.

    lr: the learning rate, above 0, in units of the normalised images.
    signed: whether to move by the sign of the gradient alone, as in InvG's code.
    decay: how the learning rate falls. `true` lets it fall to a tenth at 3/8, 5/8 and 7/8 of the run, as in
    InvG's code. A number above 0 and up to 1 lets it fall by the same share at each iteration, down to this
    share at the end, as in DLF's code.
    """
    return partial(Adam, lr, signed=signed, decay=decay)


class Adam:
    """Adam of many trials, with InvG's options."""

    def __init__(self, lr: float, iterations: int, signed: bool, decay: bool | float) -> None:
        self.lr, self.signed = lr, signed
        self.copies, self.population = 2, 1
        self.drops = [int(iterations * share) for share in DECAY_AT] if decay is True else []
        self.share = 1.0 if isinstance(decay, bool) else decay ** (1 / iterations)
        self.state: Tensors = {}

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        lr = self.lr * 0.1 ** sum(iteration >= drop for drop in self.drops) * self.share**iteration

        def move(values: Many, given: Many, means: Many, squares: Many) -> None:
            given = [value.sign() for value in given] if self.signed else given
            step = given[0].new_tensor(iteration + 1.0, dtype=torch.float32)
            torch._fused_adam_(
                values, given, means, squares, [], [step] * len(values), amsgrad=False, maximize=False,
                lr=lr, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8,
            )  # fmt: skip

        return stepped(unknowns, evaluate, self.state, ("mean", "square"), move)
