"""Defences: each changes what it says and nothing else, and its bytes are counted by hand; ATS."""

from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps
from torch import Tensor, nn

from leakbench import defences
from leakbench.attacks.adaptive.ats import ats as known
from leakbench.defences.ats import TRANSFORMS, Transform, parsed, shifted, transformed, ways

# No coordinate of it is zero.
UPDATE = {"a": 1 + torch.rand(3, 40, 50), "b": 1 + torch.rand(3, 40)}


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_withheld_coordinates_are_zero_and_the_rest_is_untouched(share: float) -> None:
    before = {name: value.clone() for name, value in UPDATE.items()}
    sent = protected("withhold", share=share)
    assert set(sent) == set(UPDATE)
    kept = sent["a"] != 0
    assert torch.equal(sent["a"][kept], UPDATE["a"][kept])
    room = 5 * sqrt(share * (1 - share) / kept.numel())
    assert kept.float().mean().item() == pytest.approx(share, abs=room)
    # Neither a whole round nor a whole neuron is withheld: the draw is made for each coordinate.
    if share == 0.5:
        assert (kept.float().mean((1, 2)) - 0.5).abs().max() < 0.06
        assert kept.flatten(0, 1).any(-1).all()
    assert all(torch.equal(UPDATE[name], before[name]) for name in before)
    # No defence hands on the very same objects, and draws nothing.
    defence, model, rng = defences.build("none", {}), nn.Linear(1, 1), torch.Generator().manual_seed(0)
    state = rng.get_state()
    assert defence.model(model, rng) is model
    assert defence.update(UPDATE, rng) is UPDATE
    assert torch.equal(rng.get_state(), state)


def protected(
    module: str, seed: int = 0, update: dict[str, Tensor] = UPDATE, **parameters: Any
) -> dict[str, Tensor]:
    return defences.build(module, parameters).update(update, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("module", "deviation", "kurtosis"), [("gaussian", 1, 3), ("laplacian", sqrt(2), 6)])
def test_noise_has_its_scale_and_its_law(module: str, deviation: float, kurtosis: float) -> None:
    update = {"a": torch.rand(2, 300, 400)}
    one, same, other = (protected(module, seed, update, scale=0.05)["a"] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    noise = (one - update["a"]).double() / 0.05
    assert float(noise.mean()) == pytest.approx(0, abs=0.02)
    assert float(noise.std()) == pytest.approx(deviation, rel=0.02)
    assert float((noise**4).mean() / noise.var() ** 2) == pytest.approx(kurtosis, rel=0.06)


def test_pruning_keeps_the_largest_of_each_round_and_tensor() -> None:
    update = {
        "a": torch.tensor([[[1.0, -9.0], [3.0, 0.5]], [[0.1, 0.2], [-0.4, 0.3]]]),
        "b": torch.tensor([[-2.0], [5.0]]),
    }
    sent = protected("prune", update=update, share=0.5)
    assert sent["a"].tolist() == [[[0, -9], [3, 0]], [[0, 0], [pytest.approx(-0.4), pytest.approx(0.3)]]]
    assert torch.equal(sent["b"], update["b"])
    assert (protected("prune", share=0.1)["a"] != 0).flatten(1).sum(1).tolist() == [200] * 3


def test_clipping_bounds_the_norm_over_all_tensors_and_keeps_the_direction() -> None:
    update = {"a": torch.tensor([[3.0, 0.0], [0.3, 0.0]]), "b": torch.tensor([[4.0], [0.4]])}
    sent = protected("clip", update=update, norm=1.0)
    torch.testing.assert_close(sent["a"], torch.tensor([[0.6, 0.0], [0.3, 0.0]]))
    torch.testing.assert_close(sent["b"], torch.tensor([[0.8], [0.4]]))
    nothing = {"a": torch.zeros(1, 2)}
    assert torch.equal(protected("clip", update=nothing, norm=1.0)["a"], nothing["a"])
    # Signs keep the mean magnitude and nothing else.
    sent = protected("sign", update={"a": torch.tensor([[1.0, -3.0, 0.0, 8.0], [1, 1, 1, 1]])})
    assert sent["a"].tolist() == [[3, -3, 0, 3], [1, 1, 1, 1]]


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_quantised_values_are_few_and_near(bits: int) -> None:
    update = {"a": torch.randn(2, 50, 60), "flat": torch.full((2, 5), 0.7)}
    sent = protected("quantise", update=update, bits=bits)
    for before, after in zip(update["a"], sent["a"], strict=True):
        spread = float(before.max() - before.min())
        assert len(after.unique()) <= 2**bits
        assert float((after - before).abs().max()) <= spread / (2**bits - 1) / 2 * 1.001
        assert float(after.min()) == float(before.min())
    torch.testing.assert_close(sent["flat"], update["flat"])


# Two rounds of one tensor of 100 and one of 10 coordinates; only the second round has zeros, 60 and none.
COUNTED = {"a": 1 + torch.rand(2, 20, 5), "b": 1 + torch.rand(2, 10)}
COUNTED["a"][1, 8:] = 0


def bytes_of(module: str, **parameters: Any) -> list[int]:
    defence = defences.build(module, parameters)
    sent = defence.update(COUNTED, torch.Generator().manual_seed(0))
    return defences.sent_bytes(defence, sent).tolist()


def in_bytes(*bits: int) -> list[int]:
    return [-(-each // 8) for each in bits]


ALL = [("none", {}), ("gaussian", {"scale": 0.1}), ("laplacian", {"scale": 0.1}), ("clip", {"norm": 1.0})]


# 1 of 100 and 1 of 10: a place of 32 bits is shorter than 100 bits, and longer than 10. Of a half, 50 and 5
# are sent; the second round has only 40 that are not zero.
@pytest.mark.parametrize(
    ("module", "parameters", "bits"),
    [
        *((name, given, [440 * 8] * 2) for name, given in ALL),
        ("prune", {"share": 0.01}, [64 + 32 + 10] * 2),
        ("prune", {"share": 0.5}, [100 + 50 * 32 + 10 + 5 * 32, 100 + 40 * 32 + 10 + 5 * 32]),
        # A bit for each sign and a number; zeros take a second bit.
        ("sign", {}, [110 + 64, 100 + 40 + 10 + 64]),
        *(("quantise", {"bits": n}, [110 * n + 4 * 32] * 2) for n in (1, 4, 8)),
    ],
)  # fmt: skip
def test_what_is_sent_has_so_many_bits(module: str, parameters: dict[str, Any], bits: list[int]) -> None:
    assert bytes_of(module, **parameters) == in_bytes(*bits)


def test_withheld_updates_are_counted_as_they_are() -> None:
    defence = defences.build("withhold", {"share": 0.5})
    sent = defence.update(COUNTED, torch.Generator().manual_seed(0))
    for turn, found in enumerate(defences.sent_bytes(defence, sent).tolist()):
        kept = [int((value[turn] != 0).sum()) for value in sent.values()]
        assert 0 < kept[1] < 10
        told = [min(100, 32 * kept[0]), min(10, 32 * kept[1])]
        assert found == -(-(sum(told) + 32 * sum(kept)) // 8)


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
