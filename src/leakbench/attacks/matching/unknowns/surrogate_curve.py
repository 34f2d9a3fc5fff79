"""Dummy images, and the point on a learned curve of weights where their gradient is taken."""

from typing import Annotated, Literal

from pydantic import Field

from leakbench.attacks.matching.parameterisation import Parameterisation
from leakbench.attacks.matching.surrogates import surrogate_unknowns

# What does not go with it in one attack (`catalogue.sections.check_fit`).
EXCLUDES = {"": ("parameters.updates: *", "optimiser: cma-es", "epochs: joint")}
COST = {"alone": True}


def surrogate_curve(
    *,
    start: Literal["normal", "uniform"] = "normal",
    boxed: bool = True,
    place: Annotated[float, Field(ge=0, le=1, description="Where the place t begins.")] = 0.5,
    share: Annotated[
        float, Field(gt=0, description="The learning rate of t and of c as a share of the images' own.")
    ] = 0.001,
    reach: Annotated[
        float, Field(gt=0, description="How far the control point may be from the middle of the line.")
    ] = 1.0,
) -> Parameterisation:
    """Return a parameterisation by images, and for each trial a curve and the place on it for the gradient.

    The curve has a control point c of as many numbers as the network has weights. With w_0 the weights sent,
    w_T those returned and t the place, the gradient is taken at (1 − t)² w_0 + 2t(1 − t) c + t² w_T. The
    control point is c = (w_0 + w_T)/2 + b, so the curve is SME's line while b is zero, as at first. Each
    tensor of b is measured in root mean squares of the same tensor of w_T − w_0, so that one learning rate
    suits all.

    NL-SME (Xia et al. 2025) has in its abstract the curve, its |w| + 1 unknowns, a scale by the direction of
    the update, and a regulariser. The formulas of these are our own.

    start: as for `surrogate`.
    boxed: as for `surrogate`.
    place: the first value of t, between 0 and 1, as for `surrogate`.
    share: the learning rate of t and of b divided by that of the images, above 0, as for `surrogate`.
    reach: the largest root mean square of each tensor of b, in those of w_T − w_0, above 0. b is scaled back
    to it after each step.

    The parameterisation raises Unfit as that of `surrogate` does.
    """

    return lambda group, rng: surrogate_unknowns(group, group.draw(start, rng), boxed, place, share, reach)
