"""ATS: what its transforms and policies do to images, and that a client trains on the result."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor

from leakbench import defences
from leakbench.attacks.adaptive.ats import ats as known
from leakbench.defences.ats import TRANSFORMS, Transform, parsed, shifted, transformed, ways

COLOUR = torch.randint(0, 256, (4, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def drawn(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def read(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_the_list_is_the_authors() -> None:
    assert len(TRANSFORMS) == 50
    assert [TRANSFORMS[number] for policy in parsed("3-1-7+43-18-18") for number in policy] == [
        ("translate-x", 9), ("contrast", 6), ("translate-y", 2),
        ("translate-y", 3), ("contrast", 7), ("contrast", 7),
    ]  # fmt: skip
    # A policy goes each way once.
    assert [[step.way for step in steps] for steps in ways([1, 0, 3])] == [
        [1, 1, 1], [1, 1, -1], [-1, 1, 1], [-1, 1, -1]
    ]  # fmt: skip
    assert len(list(known().alternatives(COLOUR / 255))) == 16


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize(
    ("name", "level", "pil"),
    [("invert", 3, lambda image, way: ImageOps.invert(image)),
     ("autocontrast", 3, lambda image, way: ImageOps.autocontrast(image)),
     ("equalize", 3, lambda image, way: ImageOps.equalize(image)),
     ("posterize", 5, lambda image, way: ImageOps.posterize(image, 6)),
     ("solarize", 0, lambda image, way: image), ("solarize", 9, lambda image, way: ImageOps.invert(image)),
     ("color", 9, lambda image, way: ImageEnhance.Color(image).enhance(1 + 0.5 * way)),
     ("contrast", 6, lambda image, way: ImageEnhance.Contrast(image).enhance(1 + way / 3)),
     ("brightness", 3, lambda image, way: ImageEnhance.Brightness(image).enhance(1 + way / 6)),
     ("sharpness", 9, lambda image, way: ImageEnhance.Sharpness(image).enhance(1 + 0.5 * way))],
)  # fmt: skip
def test_a_transform_is_that_of_pillow(name: str, level: int, pil: Any, way: int) -> None:
    found = transformed(COLOUR, Transform(name, level, way))
    for image, own in zip(COLOUR, found, strict=True):
        apart = (read(pil(drawn(image), way)).int() - own.int()).abs()
        # Rounding of a grey value, and of what is blended with it.
        assert int(apart.max()) <= 2, name


def test_images_move_the_way_that_was_drawn_and_leave_black() -> None:
    # Level 9 of a translation is 150/331 of the width: 5.4 of 12 pixels.
    right = transformed(COLOUR, Transform("translate-x", 9, 1))
    assert torch.equal(right[..., 5:], COLOUR[..., :-5])
    assert not right[..., :5].any()
    up = transformed(COLOUR, Transform("translate-y", 9, -1))
    assert torch.equal(up[..., :-5, :], COLOUR[..., 5:, :])
    assert not up[..., -5:, :].any()
    flat = torch.full((1, 3, 12, 12), 90, dtype=torch.uint8)
    assert set(transformed(flat, Transform("rotate", 9, 1)).unique().tolist()) == {90, 128}
    sheared = transformed(flat, Transform("shear-y", 9, 1))
    assert (sheared[..., 4:8, 4:8] == 90).all()
    assert (sheared == 0).any()
    for images, (name, level) in product((COLOUR, COLOUR[:, :1]), dict.fromkeys(TRANSFORMS)):
        found = transformed(images, Transform(name, level, 1))
        assert (found.shape, found.dtype) == (images.shape, torch.uint8)


def test_each_image_has_one_of_the_policies_by_chance() -> None:
    inputs = defences.build("ats", {"policies": "0+28"}).inputs
    images, labels = torch.rand(400, 1, 4, 4).mul(255).round() / 255, torch.arange(400)
    out, same = inputs(images, labels, torch.Generator().manual_seed(0))
    turned, kept = ((out - each).flatten(1).abs().amax(1) < 1e-6 for each in (1 - images, images))
    assert (turned ^ kept).all()
    # Four deviations.
    assert float(turned.double().mean()) == pytest.approx(0.5, abs=4 * 0.5 / 20)
    assert torch.equal(same, labels)
    # What is trained on is among the alternatives that an adaptive attacker tries.
    images = COLOUR / 255
    out, _ = defences.build("ats", {}).inputs(images, torch.arange(4), torch.Generator().manual_seed(3))
    every = torch.stack(list(known().alternatives(images)))
    assert ((every - out).flatten(2).abs().amax(2) == 0).any(0).all()
    assert (every - images).flatten(2).abs().amax(2).min() > 0.1


def test_images_are_moved_before_their_policy() -> None:
    images = torch.zeros(300, 1, 9, 9)
    images[..., 4, 4] = 1
    out = shifted(images, 2, torch.Generator().manual_seed(0))
    assert (out.flatten(1).sum(1) == 1).all()
    rows, columns = out[:, 0].nonzero()[:, 1:].T
    assert set(rows.tolist()) == set(columns.tolist()) == {2, 3, 4, 5, 6}
    # Both axes have a move of their own.
    assert len({*zip(rows.tolist(), columns.tolist(), strict=True)}) == 25
    inputs = defences.build("ats", {"policies": "29", "shift": 2}).inputs
    turned, _ = inputs(images, torch.zeros(300), torch.Generator().manual_seed(0))
    assert (turned.flatten(1).sum(1) == 80).all()
    assert not torch.equal(turned, 1 - images)
