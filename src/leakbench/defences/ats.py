"""ATS: train on transformed images (Gao et al., CVPR 2021)."""

import re
from collections.abc import Iterator
from itertools import product
from math import atan, degrees
from typing import Annotated, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import pad

from leakbench.base.errors import UserError
from leakbench.defences import Defence

# What a number in a policy stands for: a transform and how strong it is, from 0 to 9. The list in the
# authors' code also has a probability for each transform, which that code does not read.
TRANSFORMS = tuple(
    (name, int(level))
    for name, level in re.findall(
        r"(\S+) (\d)",
        """
        invert 7  contrast 6  rotate 2  translate-x 9  sharpness 1
        sharpness 3  shear-y 2  translate-y 2  autocontrast 5  equalize 2
        shear-y 5  posterize 5  color 3  brightness 5  sharpness 9
        brightness 9  equalize 5  equalize 1  contrast 7  sharpness 5
        color 5  translate-x 5  equalize 7  autocontrast 8  translate-y 3
        sharpness 6  brightness 6  color 8  solarize 0  invert 0
        equalize 0  autocontrast 0  equalize 8  equalize 4  color 5
        equalize 5  autocontrast 4  solarize 4  brightness 3  color 0
        solarize 1  autocontrast 0  translate-y 3  translate-y 3  autocontrast 1
        solarize 1  equalize 5  invert 0  translate-y 3  autocontrast 1
        """,
    )
)
# Transforms that go one of two ways at random.
SIGNED = ("shear-y", "translate-x", "translate-y", "color", "contrast", "sharpness", "brightness")


class Transform(NamedTuple):
    """One transform of an image."""

    name: str
    level: int
    way: int


def transformed(images: Tensor, step: Transform) -> Tensor:
    """Return images after one transform, in the same shape.

    The shear is bilinear, where the authors' is bicubic. Images with one channel have no colour to change.
    """
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import functional as f

    rows, columns = images.shape[2:]
    share = step.way * step.level / 9
    along = round(share * 150 / 331 * columns), round(share * 150 / 331 * rows)
    no_angles, still = [0.0, 0.0], [0, 0]
    match step.name:
        case "invert":
            out = f.invert(images)
        case "autocontrast":
            out = f.autocontrast(images)
        case "equalize":
            out = f.equalize(images)
        case "posterize":
            out = f.posterize(images, round(8 - 4 * step.level / 9))
        case "solarize":
            # At level 0 the threshold would be 256, and no pixel is as bright as that.
            out = images if step.level == 0 else f.solarize(images, 256 - 256 * step.level / 9)
        case "rotate":
            out = f.rotate(images, 30 * step.level / 9, fill=[128.0])
        case "shear-y":
            shear = [0.0, degrees(atan(0.3 * share))]
            out = f.affine(images, 0.0, still, 1.0, shear, InterpolationMode.BILINEAR, center=still)
        case "translate-x":
            out = f.affine(images, 0.0, [along[0], 0], 1.0, no_angles)
        case "translate-y":
            out = f.affine(images, 0.0, [0, along[1]], 1.0, no_angles)
        case "color":
            out = f.adjust_saturation(images, 1 + 0.5 * share)
        case "contrast":
            out = f.adjust_contrast(images, 1 + 0.5 * share)
        case "sharpness":
            out = f.adjust_sharpness(images, 1 + 0.5 * share)
        case _:
            out = f.adjust_brightness(images, 1 + 0.5 * share)
    return out


def parsed(policies: str) -> list[list[int]]:
    """Return the numbers of the transforms of each policy, from the authors' notation."""
    where = "defence.parameters.policies"
    try:
        found = [[int(number) for number in policy.split("-")] for policy in policies.split("+")]
    except ValueError:
        raise UserError(f"{where}: '{policies}' are no policies (write such as '3-1-7+43-18-18')") from None
    for number in (each for policy in found for each in policy):
        if number >= len(TRANSFORMS):
            raise UserError(
                f"{where}: there is no transform {number} (they go from 0 to {len(TRANSFORMS) - 1})"
            )
    return found


def ways(policy: list[int]) -> list[list[Transform]]:
    """Return all that a policy may do to an image: its transforms, in each combination of their ways."""
    named = [TRANSFORMS[number] for number in policy]
    each = product(*((1, -1) if name in SIGNED else (1,) for name, _ in named))
    return [[Transform(*transform, way) for transform, way in zip(named, one, strict=True)] for one in each]


def applied(images: Tensor, steps: list[Transform]) -> Tensor:
    """Return images after these transforms, in the same shape and range."""
    channels, *size = images.shape[1:]
    if images.dim() != 4 or channels not in (1, 3) or min(size) < 3:
        raise UserError(
            "dataset: defence ats transforms images of one or three channels, and a sample here is "
            f"{' × '.join(map(str, images.shape[1:]))} (choose a data set of images)"
        )
    out = (images * 255).round().to(torch.uint8)
    for step in steps:
        out = transformed(out, step)
    return out.to(images.dtype) / 255


def alternatives(images: Tensor, policies: str = "3-1-7+43-18-18") -> Iterator[Tensor]:
    """Yield each result that the policies may have for a batch of images, one after the other."""
    for policy in parsed(policies):
        for steps in ways(policy):
            yield applied(images, steps)


def shifted(images: Tensor, most: int, rng: torch.Generator) -> Tensor:
    """Return images, each moved at random by up to `most` pixels in both directions."""
    rows, columns = images.shape[2:]
    padded = pad(images, [most] * 4)
    places = torch.randint(0, 2 * most + 1, (len(images), 2), generator=rng).tolist()
    each = zip(padded, places, strict=True)
    return torch.stack([one[:, y : y + rows, x : x + columns] for one, (y, x) in each])


def ats(
    *,
    policies: Annotated[str, Field(pattern="^[0-9+-]+$")] = "3-1-7+43-18-18",
    shift: Annotated[int, Field(ge=0, le=16)] = 0,
) -> Defence:
    """Transform each image by one of the policies, at random, before the client trains on it.

    A policy applies its transforms one after the other; each of the authors' policies has three. Many
    transforms go one of two ways at random. The transforms, their strengths and the default policies are
    those of the authors' code (github.com/gaow0007/ATSPrivacy, 2496fc9), which trains ResNet20-4 on CIFAR-100
    with these two policies. The policies come from a search among 1,600 random policies, which is not
    repeated here. The authors' training also moves each image by up to 4 pixels and mirrors half of the
    images, with the defence and without it. Here no image is mirrored, and images are moved only if `shift`
    says so.

    policies: policies with + between them. Each policy is the numbers of its transforms with - between them.
    shift: pixels that each image is moved by at most, at random, before its policy.

    Raises UserError if a policy does not exist, or if the samples are not images.
    """
    found = [ways(policy) for policy in parsed(policies)]

    def inputs(images: Tensor, labels: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(len(found), (len(images),), generator=rng)
        drawn = torch.rand(len(images), generator=rng)
        images = shifted(images, shift, rng) if shift else images
        out = torch.empty_like(images)
        for number, policy in enumerate(found):
            way = (drawn * len(policy)).long()
            for place, steps in enumerate(policy):
                own = ((chosen == number) & (way == place)).to(images.device)
                if own.any():
                    out[own] = applied(images[own], steps)
        return out, labels

    return Defence(inputs=inputs)
