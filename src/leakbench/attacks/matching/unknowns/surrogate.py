"""Dummy images, and the point on the line of weights from sent to returned where their gradient is taken."""

from typing import Annotated, Literal

from pydantic import Field

from leakbench.attacks.matching.parameterisation import Parameterisation
from leakbench.attacks.matching.surrogates import surrogate_unknowns

# What does not go with it in one attack (`catalogue.sections.check_fit`).
EXCLUDES = {"": ("parameters.updates: *", "optimiser: cma-es", "epochs: joint")}
COST = {"alone": True}


def surrogate(
    *,
    start: Literal["normal", "uniform"] = "normal",
    boxed: bool = True,
    place: Annotated[float, Field(ge=0, le=1, description="Where the place α begins.")] = 0.5,
    share: Annotated[
        float, Field(gt=0, description="The learning rate of α as a share of the images' own.")
    ] = 0.001,
) -> Parameterisation:
    """Return a parameterisation by images and a place α of each trial, where the gradient is taken.

    The gradient is taken at (1 − α) w_0 + α w_T, where w_0 are the weights sent and w_T those that the client
    returned. This needs neither the number of local steps nor their learning rate or order. The method is
    SME, section 3, with the rates of the authors' code (1 and 0.001).

    start: the noise that images begin as, in the space where the victim's images have mean 0 and deviation 1.
    boxed: whether pixels are kept in their range, from the start.
    place: the first value of α, between 0 (w_0, as one batch takes it) and 1 (w_T). α stays in this range
    after each step.
    share: the learning rate of α divided by that of the images, above 0. It suits optimisers whose steps do
    not grow with the gradient, such as Adam.

    The parameterisation raises Unfit for gradients, simulated steps and hidden parameters.
    """

    return lambda group, rng: surrogate_unknowns(group, group.draw(start, rng), boxed, place, share)
