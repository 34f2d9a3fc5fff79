"""Gradient regularisation (FedLeak): a distance that is steep in the images is penalised."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.terms import Penalty
from leakbench.base.tensors import Tensors, over

# What an iteration costs: the distance is evaluated twice.
COST = {"evaluations": 2}


def slope_penalty(*, weight: Annotated[float, Field(ge=0)], reach: Annotated[float, Field(gt=0)]) -> Penalty:
    """Return the penalty on the length ‖∇D‖ of the distances' own gradient in the dummies.

    The gradient of the penalty is a Hessian times a direction. It is replaced by the difference (∇D(x + r
    ∇D/‖∇D‖) − ∇D(x)) / r with r = reach. So the trial moves along (1 − λ) ∇D(x) + λ ∇D(x + r ∇D/‖∇D‖) with λ
    = weight / reach, and an iteration costs twice as much. Priors are not penalised.

    The penalty and its approximation are from FedLeak (Fan et al., USENIX Security 2025, arXiv:2506.08435).
    We have not read its formula or its weights. The difference is that of Zhao, Zhang and Hu (ICML 2022), who
    penalise the gradient of a training loss.

    weight: the weight of the length in the objective, at least 0.
    reach: the length r of the move x → x + r ∇D/‖∇D‖, above 0, in units of the normalised images, over all
    images of a trial together.
    """
    return Penalty(lambda matched: flatter(matched, weight, reach) if weight else matched)


def flatter(matched: Evaluate, weight: float, reach: float) -> Evaluate:
    """Return `matched` with the length of its own gradient added, trial by trial."""

    def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
        losses, slopes = matched(unknowns)
        squares = [slope.flatten(1).square().sum(1) for slope in slopes.values()]
        length = torch.stack(squares).sum(0).sqrt()
        step = reach / length.clamp_min(torch.finfo(length.dtype).tiny)
        ahead = {
            name: torch.addcmul(unknowns[name], slope, over(step, slope)) for name, slope in slopes.items()
        }
        _, there = matched({name: value.detach() for name, value in (unknowns | ahead).items()})
        share = weight / reach
        moves = {name: torch.lerp(slope, there[name], share) for name, slope in slopes.items()}
        return losses + weight * length, moves

    return evaluated
