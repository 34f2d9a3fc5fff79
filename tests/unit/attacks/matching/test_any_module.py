"""Whatever torch module the victim is, gradients and what is made of them are those of plain autograd."""

from copy import deepcopy
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_networks import CHANNELS, CLASSES, PARTS, SIDE, assembled
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from trial_networks import SHAPE, VICTIMS, distance_of, group, met

from leakbench.attacks.matching.engines.chain import chain
from leakbench.attacks.matching.engines.fixed_convolution import fix_convolutions
from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit, gradients
from leakbench.attacks.matching.engines.own_gradient import OwnGradient
from leakbench.attacks.matching.engines.own_products import OwnProducts
from leakbench.attacks.matching.engines.shared_weights import SharedWeights, fits
from leakbench.base.tensors import Tensors

# Of the largest gradient of a network: what is smaller than that is rounding.
NOTHING = 1e-6
# A step's share of its length so short that in float64 no curvature is left in a difference, which is then
# exact to this.
SHORT, DIFFERENCE = 1e-4, 1e-4


def expected(model: nn.Module, images: Tensor, labels: Tensor) -> Tensors:
    """Return autograd's gradient of one trial's mean loss, differentiable in the images."""
    own = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    with sdpa_kernel(SDPBackend.MATH):
        loss = cross_entropy(torch.func.functional_call(model, own, (images,)), labels)
    found = torch.autograd.grad(loss, list(own.values()), create_graph=True, materialize_grads=True)
    return dict(zip(own, found, strict=True))


def agree(found: Tensor, wanted: Tensor, scale: float, tolerance: float, what: str) -> None:
    assert found.shape == wanted.shape
    apart, whole = (float(value.norm().detach()) for value in (found - wanted, wanted))
    # Where no gradient comes through, all that is compared is zero.
    assert apart <= tolerance * max(whole, NOTHING * scale), f"{what}: {apart:.2g} of {whole:.2g}"


def holds(model: nn.Module, images: Tensor, labels: Tensor, tolerance: float = 1e-7) -> None:
    """Compare what every engine computes with autograd: gradients, products, and the derivative of a cosine
    distance of gradients."""
    images = images.clone().requires_grad_()
    wanted = [expected(model, x, y) for x, y in zip(images, labels, strict=True)]
    observed = {n: torch.randn_like(v) * v.detach().square().mean().sqrt() for n, v in wanted[0].items()}
    found, losses = gradients(model, images, labels)
    for loss, x, y in zip(losses, images, labels, strict=True):
        assert loss.item() == pytest.approx(cross_entropy(model(x), y).item(), rel=1e-12)
    assert list(found) == list(observed)

    def cosine(g: Tensors) -> Tensor:
        flat, o = (torch.cat([v.flatten() for v in each.values()]) for each in (g, observed))
        return flat @ o / flat.norm()

    scale = max(float(v.detach().norm()) for each in wanted for v in each.values())
    for trial, each in enumerate(wanted):
        for name, value in each.items():
            agree(found[name][trial], value, scale, tolerance, name)
    cosines = [cosine({n: v[t] for n, v in found.items()}) for t in range(len(images))]
    ours, theirs = (
        torch.autograd.grad(torch.stack(each).sum(), images)[0]
        for each in (cosines, [cosine(each) for each in wanted])
    )
    agree(ours, theirs, float(theirs.norm()), 10 * tolerance, "the derivative")
    again, _ = gradients(model, images, labels, dict(model.named_parameters()))
    for name, value in found.items():
        agree(again[name], value.detach(), scale, tolerance, f"{name} by weights that replace the model's")
    engines_hold(model, images.detach(), labels, observed, theirs, tolerance)
    rows = {n: rows_of(v[None]) for n, v in observed.items()}
    products = gradient_products(
        model, images.detach().clone(), labels, rows, torch.zeros(len(images), dtype=torch.int64)
    )
    for kind, other in (("dot", lambda each: observed), ("mine", lambda each: each)):
        sums = torch.stack([sum((v * other(each)[n]).sum() for n, v in each.items()) for each in wanted])
        agree(products[kind], sums.detach().double(), scale**2, 10 * tolerance, kind)


def engines_hold(
    model: nn.Module, images: Tensor, labels: Tensor, observed: Tensors, cosine: Tensor, tolerance: float
) -> None:
    """Compare the engines that take whole derivatives with autograd's derivative of a cosine, if they serve
    the model."""
    trials = len(labels)
    if not engines_fit(model, images.shape[1:]) or chain(model) is None:
        return
    seen = {name: value.expand(trials, *value.shape).contiguous() for name, value in observed.items()}
    of = group(model, images, labels, observed=seen)
    unknowns = {"images": (images - of.mean) / of.deviation}
    length = torch.stack([value.norm() for value in observed.values()]).norm()
    wanted, ones = -cosine * of.deviation / length, images.new_ones(trials, len(seen))
    given = of, distance_of("cosine"), seen, labels, ones
    found = {"differences": FrozenDifference(*given, scale=SHORT)(unknowns)[1]["images"]}
    for own in (OwnGradient, OwnProducts) if fits(model, images.shape[1:]) else ():
        with patch.object(SharedWeights, "own", own):
            found[own.__name__] = SharedWeights(*given)(unknowns)[1]["images"]
    for name, value in found.items():
        loose = DIFFERENCE if name == "differences" else 10 * tolerance
        agree(value, wanted, float(wanted.norm()), loose, name)


def drawn(trials: int, batch: int, side: int = SIDE, channels: int = CHANNELS) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(trials, batch, channels, side, side, dtype=torch.double, generator=rng)
    return images, torch.randint(0, CLASSES, (trials, batch), generator=rng)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("flat", [True, False])
def test_every_part_alone(part: str, flat: bool) -> None:
    holds(assembled([part], flat), *drawn(2, 2))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(list(PARTS)), min_size=2, max_size=4),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([(2, 1), (2, 2), (1, 3)]),
)
def test_parts_together(parts: list[str], flat: bool, seed: int, size: tuple[int, int]) -> None:
    images, labels = drawn(*size)
    model = made(parts, flat, seed, images[0], labels[0])
    # Parts that leave no image to the next one, or a single value to a norm, make no network.
    assume(model is not None)
    assert model is not None
    holds(model, images, labels)


def made(parts: list[str], flat: bool, seed: int, images: Tensor, labels: Tensor) -> nn.Module | None:
    """Return a network of parts, or None where they do not fit each other."""
    try:
        model = assembled(parts, flat, seed)
        expected(model, images, labels)
    except (RuntimeError, ValueError):
        return None
    return model


@pytest.mark.parametrize(("module", "parameters"), VICTIMS)
def test_every_victim(module: str, parameters: dict[str, Any]) -> None:
    """With its convolutions fixed too, which keeps its layers' names."""
    model = met(module, parameters).requires_grad_(False)
    images, labels = drawn(*((2, 1) if parameters.get("depth") == 50 else (3, 2)), 32, 3)
    assert engines_fit(model, SHAPE)
    holds(model, images, labels, tolerance=1e-6)
    fixed = fix_convolutions(deepcopy(model)).requires_grad_(False)
    engines_fit(fixed, SHAPE, like=model)
    assert [name for name, _ in fixed.named_modules()] == [name for name, _ in model.named_modules()]
    found, wanted = (gradients(each, images.requires_grad_(), labels)[0] for each in (fixed, model))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_most_parts_fit_each_other() -> None:
    """Guards the test above, which leaves out what does not fit."""
    images, labels = drawn(1, 2)
    pairs = [[one, other] for one in PARTS for other in list(PARTS)[::4]]
    fitting = [made(pair, True, 0, images[0], labels[0]) is not None for pair in pairs]
    assert sum(fitting) > 0.8 * len(pairs)


@pytest.mark.parametrize("engine", [FrozenDifference, SharedWeights])
def test_an_engine_that_is_off_is_seen(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = engine.__call__

    def off(self: Any, unknowns: Tensors) -> tuple[Tensor, Tensors]:
        losses, found = right(self, unknowns)
        return losses, {name: 1.001 * value for name, value in found.items()}

    monkeypatch.setattr(engine, "__call__", off)
    with pytest.raises(AssertionError):
        holds(assembled(["conv", "batch norm", "relu"], True), *drawn(2, 2))
