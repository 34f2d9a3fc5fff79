"""DLF's clip penalty: a pixel lies between 0 and 1."""

from functools import partial
from typing import Annotated

from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.terms import Prior
from leakbench.attacks.matching.trials import Group


def outside_box(*, weight: Annotated[float, Field(ge=0)]) -> Prior:
    """Return the prior of pixels between 0 and 1.

    The value is the squared distance of each pixel from this range, summed over an image and averaged over
    the images of a trial. It is `clip_prior` of DLF's code.

    weight: the weight of the prior in the objective, at least 0.
    """
    return Prior(weight, lambda group: partial(excess, group))


def excess(group: Group, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the prior's value [trials], and its derivative in the shape of the images."""
    pixels = group.to_pixels(images)
    outside = pixels - pixels.clamp(0, 1)
    value = outside.square().flatten(1).sum(1) / images.shape[1]
    return value, outside * group.deviation * (2 / images.shape[1])
