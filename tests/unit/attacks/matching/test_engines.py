"""Whatever torch module the victim is, gradients and what is made of them are those of plain autograd."""

from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_networks import CHANNELS, CLASSES, PARTS, SIDE, assembled
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy
from trial_networks import SHAPE, VICTIMS, distance_of, group, met, network

from leakbench.attacks.matching.engines import gradients as module
from leakbench.attacks.matching.engines.chain import chain
from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit, gradients
from leakbench.attacks.matching.engines.layers import RULES
from leakbench.attacks.matching.engines.layers.rule import Link
from leakbench.attacks.matching.engines.shared_weights import SharedWeights, fits
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors

# Of the largest gradient of a network: what is smaller than that is rounding.
NOTHING = 1e-6
# A step's share of its length so short that in float64 no curvature is left in a difference, which is then
# exact to this.
SHORT, DIFFERENCE = 1e-4, 1e-4


def told(labels: Tensor) -> Tensor:
    """Return labels as a loss takes them: classes as they are, and logits as probabilities."""
    return labels.softmax(-1) if labels.is_floating_point() else labels


def expected(model: nn.Module, images: Tensor, labels: Tensor) -> Tensors:
    """Return autograd's gradient of one trial's mean loss, differentiable in images and logits."""
    own = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    with sdpa_kernel(SDPBackend.MATH):
        loss = cross_entropy(torch.func.functional_call(model, own, (images,)), told(labels))
    found = torch.autograd.grad(loss, list(own.values()), create_graph=True, materialize_grads=True)
    return dict(zip(own, found, strict=True))


def apart(distance: str, g: Tensors, o: Tensors, weights: Tensors) -> Tensor:
    """Return the distance of a gradient g from the observed one, with a weight for each parameter."""

    def product(a: Tensors, b: Tensors) -> Tensor:
        return torch.stack([w * (a[name] * b[name]).sum() for name, w in weights.items()]).sum()

    if distance == "squares":
        gap = {name: g[name] - o[name] for name in o}
        return product(gap, gap)
    return 1 - product(g, o) / (product(g, g) * product(o, o)).sqrt()


def agree(found: Tensor, wanted: Tensor, scale: float, tolerance: float, what: str) -> None:
    assert found.shape == wanted.shape
    off, whole = (float(value.norm().detach()) for value in (found - wanted, wanted))
    # Where no gradient comes through, all that is compared is zero.
    assert off <= tolerance * max(whole, NOTHING * scale), f"{what}: {off:.2g} of {whole:.2g}"


def holds(
    model: nn.Module, images: Tensor, labels: Tensor, distance: str = "cosine", tolerance: float = 1e-7,
) -> None:  # fmt: skip
    """Compare what every engine computes with autograd: gradients, products, and derivatives of a distance.

    labels: [trials, batch] classes, or [trials, batch, classes] logits, which are then unknowns too.
    """
    before = {name: value.clone() for name, value in model.state_dict().items()}
    sought = {"images": images.clone().requires_grad_()}
    if labels.is_floating_point():
        sought["labels"] = labels = labels.clone().requires_grad_()
    images = sought["images"]
    wanted = [expected(model, x, y) for x, y in zip(images, labels, strict=True)]
    observed, other = (
        {n: torch.randn_like(v) * v.detach().square().mean().sqrt() for n, v in wanted[0].items()}
        for _ in range(2)
    )
    weights = {name: torch.rand((), dtype=torch.double) + 0.5 for name in observed}
    found, losses = gradients(model, images, told(labels))
    for loss, x, y in zip(losses, images, labels, strict=True):
        assert loss.item() == pytest.approx(cross_entropy(model(x), told(y)).item(), rel=1e-12)
    assert list(found) == list(observed)
    scale = max(float(v.detach().norm()) for each in wanted for v in each.values())
    for trial, each in enumerate(wanted):
        for name, value in each.items():
            agree(found[name][trial], value, scale, tolerance, name)
    values = [
        apart(distance, {n: v[t] for n, v in found.items()}, observed, weights) for t in range(len(images))
    ]
    ours, theirs = (
        dict(zip(sought, torch.autograd.grad(torch.stack(each).sum(), list(sought.values())), strict=True))
        for each in (values, [apart(distance, each, observed, weights) for each in wanted])
    )
    for name, value in theirs.items():
        agree(ours[name], value, float(value.norm()), 10 * tolerance, f"the derivative in {name}")
    again, _ = gradients(model, images, told(labels), dict(model.named_parameters()))
    for name, value in found.items():
        agree(again[name], value.detach(), scale, tolerance, f"{name} by weights that replace the model's")
    images, labels = images.detach(), labels.detach()
    engines_hold(model, images, labels, (distance, observed, weights), theirs, tolerance)
    rows = {n: rows_of(torch.stack([other[n], v])) for n, v in observed.items()}
    owner = torch.arange(len(images)) % 2
    each = {n: w.expand(len(images)) for n, w in weights.items()}
    products = gradient_products(model, images.clone(), told(labels), rows, owner, each)
    for kind in ("dot", "mine"):
        seen = [one if kind == "mine" else (other, observed)[t % 2] for t, one in enumerate(wanted)]
        sums = [
            sum((w * one[n] * o[n]).sum() for n, w in weights.items())
            for one, o in zip(wanted, seen, strict=True)
        ]
        agree(products[kind], torch.stack(sums).detach().double(), scale**2, 10 * tolerance, kind)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(layer._forward_hooks for layer in model.modules())


def engines_hold(
    model: nn.Module, images: Tensor, labels: Tensor, seen: tuple[str, Tensors, Tensors], slopes: Tensors,
    tolerance: float,
) -> None:  # fmt: skip
    """Compare the engines of whole derivatives with `slopes` of `seen`: distance, gradient, weights."""
    trials = len(labels)
    if not engines_fit(model, images.shape[1:]) or chain(model) is None:
        return
    distance, own, weights = seen
    observed = {name: value.expand(trials, *value.shape).contiguous() for name, value in own.items()}
    known = not labels.is_floating_point()
    of = group(model, images, labels if known else labels.argmax(2), known, observed=observed)
    unknowns = {"images": (images - of.mean) / of.deviation} | ({} if known else {"labels": labels})
    wanted = slopes | {"images": slopes["images"] * of.deviation}
    each = torch.stack([weights[name] for name in observed]).expand(trials, -1)
    given = of, distance_of(distance), observed, of.labels, each
    before = {name: value.clone() for name, value in unknowns.items()}
    found = {"differences": FrozenDifference(*given, scale=SHORT)(unknowns)[1]}
    if fits(model, images.shape[1:]):
        found["batches"] = SharedWeights(*given)(unknowns)[1]
    for engine, derivatives in found.items():
        loose = DIFFERENCE if engine == "differences" else 10 * tolerance
        assert derivatives.keys() == wanted.keys()
        # An optimiser goes through both in the order of memory.
        assert derivatives["images"].stride() == unknowns["images"].stride()
        for name, value in wanted.items():
            agree(derivatives[name], value, float(value.norm()), loose, f"{engine}: {name}")
    assert all(torch.equal(value, before[name]) for name, value in unknowns.items())


def drawn(
    trials: int, batch: int, side: int = SIDE, channels: int = CHANNELS, soft: int = 0
) -> tuple[Tensor, Tensor]:
    """Return images and their classes, or logits of `soft` classes."""
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(trials, batch, channels, side, side, dtype=torch.double, generator=rng)
    if soft:
        return images, torch.randn(trials, batch, soft, dtype=torch.double, generator=rng)
    return images, torch.randint(0, CLASSES, (trials, batch), generator=rng)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_alone(part: str) -> None:
    holds(assembled([part], True), *drawn(2, 2))
    # As the tape takes it.
    holds(assembled([part], False), *drawn(2, 2, soft=CLASSES), "squares")


def fitting(parts: list[str], flat: bool, seed: int, images: Tensor, labels: Tensor) -> nn.Module | None:
    """Return a network of parts, or None where one leaves no image to the next, or one value to a norm."""
    try:
        model = assembled(parts, flat, seed)
        expected(model, images, labels)
    except (RuntimeError, ValueError):
        return None
    return model


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from(list(PARTS)), min_size=2, max_size=4), st.booleans(), st.integers(0, 3),
    st.sampled_from([(2, 1), (2, 2), (1, 3)]), st.sampled_from([0, CLASSES]),
    st.sampled_from(["cosine", "squares"]),
)  # fmt: skip
def test_parts_together(
    parts: list[str], flat: bool, seed: int, size: tuple[int, int], soft: int, distance: str
) -> None:
    images, labels = drawn(*size, soft=soft)
    model = fitting(parts, flat, seed, images[0], labels[0])
    # Most do: hypothesis ends with an error where it finds too few that do.
    assume(model is not None)
    holds(model, images, labels, distance)


@pytest.mark.parametrize(("name", "parameters"), VICTIMS)
def test_every_victim(name: str, parameters: dict[str, Any]) -> None:
    model = met(name, parameters).requires_grad_(False)
    images, logits = drawn(*((2, 1) if parameters.get("depth") == 50 else (2, 2)), 32, 3, soft=10)
    assert engines_fit(model, SHAPE)
    holds(model, images, logits, tolerance=1e-6)


@pytest.mark.parametrize("engine", [FrozenDifference, SharedWeights])
def test_an_engine_that_is_off_is_seen(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the tests above."""
    right = engine.__call__

    def off(self: Any, unknowns: Tensors) -> tuple[Tensor, Tensors]:
        losses, found = right(self, unknowns)
        return losses, {name: 1.001 * value for name, value in found.items()}

    monkeypatch.setattr(engine, "__call__", off)
    with pytest.raises(AssertionError):
        holds(assembled(["conv", "batch norm", "relu"], True), *drawn(2, 2))


def test_a_lenet_is_taken_as_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network("lenet_dlg", {}).requires_grad_(False)
    engines_fit(model, SHAPE)
    monkeypatch.setattr(module, "tape_gradients", None)
    found, _ = gradients(model, *drawn(2, 2, 32, 3))
    assert found["conv1.weight"].shape == (2, 12, 3, 5, 5)


class Own(nn.Conv2d):
    """A convolution that may do anything."""


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm2d(4, affine=False), nn.Dropout(0.5), nn.Conv2d(4, 4, 3, padding="same"),
     nn.Conv2d(4, 4, 3, groups=2), nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
     nn.MaxPool2d(2, ceil_mode=True), nn.Flatten(2), nn.Linear(8, 8), Own(4, 4, 3)],
)  # fmt: skip
def test_other_networks_are_no_chain(layer: nn.Module) -> None:
    assert chain(nn.Sequential(nn.Conv2d(1, 4, 3), layer)) is None


def test_weights_may_be_others_than_the_models_own() -> None:
    """Buffers stay the model's."""
    model, other = (network("resnet20_4", {"width": 2}, seed=seed).requires_grad_(False) for seed in (0, 9))
    images, labels = drawn(2, 2, 32, 3)
    other.load_state_dict(dict(other.named_parameters()) | dict(model.named_buffers()))
    found, _ = gradients(model, images.requires_grad_(), labels, weights=dict(other.named_parameters()))
    for trial in range(2):
        for name, value in expected(other, images[trial], labels[trial]).items():
            agree(found[name][trial], value, 1.0, 1e-6, name)


def test_no_hook_stays_behind_a_fault() -> None:
    model = network("lenet_dlg", {}).requires_grad_(False)
    assert engines_fit(model, SHAPE)
    images, labels = torch.rand(1, 1, 5, 32, 32, dtype=torch.double), torch.zeros(1, 1, dtype=torch.int64)
    with pytest.raises(RuntimeError):
        gradients(model, images, labels, weights=dict(model.named_parameters()))
    assert not any(layer._forward_hooks for layer in model.modules())


class Shift(nn.Module):
    """A registered layer that no product is known of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.weight[:, None, None]


SHIFT = Link(
    lambda layer, x, trials: (x + layer.weight.repeat(trials)[:, None, None], ()),
    lambda layer, kept, read, slope: slope,
    lambda layer, kept, read, rate, own, trials: (
        (torch.zeros(read) if rate is None else rate) + (own["weight"].reshape(-1, 1, 1) if own else 0)
    ),
    lambda layer, kept, read, slope, moved, rate, own: torch.zeros(read) if rate is None else 1 * rate,
    lambda layer, kept, slope, trials: {"weight": slope.sum((0, 2, 3)).view(trials, -1)},
)


def test_a_layer_without_products_lies_in_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, Shift, RULES[nn.Sigmoid]._replace(link=SHIFT))
    layers = nn.Conv2d(CHANNELS, CHANNELS, 3), Shift(), nn.Sigmoid(), nn.Flatten()
    model = nn.Sequential(*layers, nn.Linear(16 * CHANNELS, CLASSES)).double().requires_grad_(False)
    assert not fits(model, torch.Size([2, CHANNELS, SIDE, SIDE]))
    holds(model, *drawn(3, 2), "squares")


class Rule(nn.Linear):
    """A layer that may do anything."""


def test_a_layer_without_a_rule_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    model = nn.Sequential(nn.Flatten(), Rule(CHANNELS * SIDE**2, CLASSES)).double()
    for _ in range(2):
        holds(model.requires_grad_(False), *drawn(2, 1))
    (line,) = capsys.readouterr().err.splitlines()
    assert "1 (Rule): no rule" in line


def test_a_network_that_autograd_cannot_differentiate_is_refused() -> None:
    class Broken(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).tanh().mul_(2)

    model = Broken(nn.Flatten(), nn.Linear(CHANNELS * SIDE**2, CLASSES)).double()
    with pytest.raises(Unfit, match="autograd has no gradients of the victim"):
        gradients(model, *drawn(1, 1))
