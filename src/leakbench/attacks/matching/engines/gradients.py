"""The gradients that dummy images would cause, for many trials at once and differentiable in the images.

`chain` takes networks of registered layers, sums and flattenings. `tape` takes any other network whose layers
with parameters are registered, and weights that replace the model's own. Neither sees what a network computes
outside its layers. The first time that a network is met, all that the rules compute is therefore compared
with plain autograd, which is used for a network where they differ.
"""

from collections.abc import Callable
from copy import deepcopy
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.chain import Hop, apart, back, chain, chain_gradients, entropy, forth
from leakbench.attacks.matching.engines.layers import rule
from leakbench.attacks.matching.engines.plain import plain_gradients
from leakbench.attacks.matching.engines.tape import Taped, layer_passes, tape_gradients
from leakbench.base.errors import Unfit
from leakbench.base.progress import log
from leakbench.base.tensors import Tensors
from leakbench.networks.per_trial import hidden, lent

# How far an engine's gradient of a parameter may be from autograd's, relative to the norm of autograd's.
TOLERANCE = 1e-4
# A gradient whose norm is below this share of the largest gradient's is nothing but rounding errors.
ROUNDING = 1e-10
TRIALS = 2
# By how much of its size a network's weights are moved where gradients are zero and so say nothing.
STIRRED = 0.1
# The two entries of a comparison that are no gradients of parameters.
_DERIVATIVE, _SLOPE = "the images", "the loss in the images"
# The errors that an engine may raise for a network that its rules do not describe.
MISFITS = (TypeError, ValueError, RuntimeError, AttributeError, KeyError, IndexError, AssertionError)
# Network → what was asked of it → the answer. Models of one network share their answers.
_ANSWERS: WeakKeyDictionary[nn.Module, dict[object, bool]] = WeakKeyDictionary()


def gradients(
    model: nn.Module, images: Tensor, labels: Tensor, weights: Tensors | None = None
) -> tuple[Tensors, Tensor]:
    """Return the gradients that dummy images would cause in a model, and the losses."""
    if not engines_fit(model, images.shape[1:]):
        return plain_gradients(model, images, labels, weights)
    steps = chain(model) if weights is None else None
    if steps is None:
        return tape_gradients(model, images, labels, weights)
    found, losses = chain_gradients(steps, images, labels)
    order = [name for name, _ in model.named_parameters()]
    return {name: found[name] for name in dict.fromkeys([*order, *found])}, losses


def gradients_at(model: nn.Module, images: Tensor, labels: Tensor, weights: Tensors) -> Tensors:
    """Return the gradients at weights that each trial has of its own."""
    found = [
        gradients(model, images[n : n + 1], labels[n : n + 1], {name: w[n] for name, w in weights.items()})[0]
        for n in range(len(images))
    ]
    return {name: torch.cat([each[name] for each in found]) for name in weights}


def engines_fit(model: nn.Module, shape: torch.Size, like: nn.Module | None = None) -> bool:
    """Return whether the engines' gradients of a model are plain autograd's, compared once on noise."""
    if like is not None and like in _ANSWERS:
        _ANSWERS[model] = _ANSWERS[like]
    return agreed(
        model,
        "gradients",
        # A difference in float64 cannot be rounding. Most networks agree in float32 already, which is faster.
        lambda: _misfit(model, shape, torch.float32) and _misfit(model, shape, torch.float64),
        "plain autograd takes the gradients, one trial at a time",
    )


def agreed(model: nn.Module, question: object, misfit: Callable[[], str], otherwise: str) -> bool:
    """Return whether a comparison found no misfit. It is made once for each network."""
    answers = _ANSWERS.setdefault(model, {})
    if question not in answers:
        reason = misfit()
        if reason:
            log(f"leakbench attack: {otherwise}: {reason}")
        answers[question] = not reason
    return answers[question]


def apart_in_words(found: Tensors, expected: Tensors) -> str:
    """Return in words which of the derivatives found is not as expected, or "" if none is."""
    names = [name for name in expected if name not in (_DERIVATIVE, _SLOPE)]
    largest = max(float(expected[name].norm()) for name in names)
    for name, value in found.items():
        off, whole = float((value - expected[name]).norm()), float(expected[name].norm())
        # In a dead network all gradients are zero: `<=` accepts 0 and 0, `or 1` avoids dividing by 0.
        if not off <= TOLERANCE * max(whole, ROUNDING * largest):
            return f"the engine's gradient of {name} is off by {off / (whole or 1):.1g} of it"
    return ""


def misfit_of(model: nn.Module, compare: Callable[[], tuple[str, Tensors]]) -> str:
    """Return in words where derivatives differ from autograd's, or "" if they agree."""
    # An engine that is wrong elsewhere is right where a derivative is zero. The comparison is then made again
    # on weights moved by noise, as other rounds and a client's steps move them.
    misfit, expected = compare()
    norms = [float(value.norm()) for value in expected.values()]
    if misfit or min(norms) > ROUNDING * max(norms):
        return misfit
    _stir(model)
    return compare()[0]


@torch.no_grad()
def _stir(model: nn.Module) -> None:
    rng = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        size = float(weight.square().mean().sqrt()) or 1.0
        weight.add_(STIRRED * size * torch.randn(weight.shape, generator=rng).to(weight))


def _misfit(model: nn.Module, shape: torch.Size, dtype: torch.dtype) -> str:
    """Return in words where an engine's gradients differ from autograd's, or "" if they agree."""
    with lent(
        model, {n: torch.ones(TRIALS, v.shape[1]).to(v.device, dtype) for n, v in hidden(model).items()}
    ):
        twin = deepcopy(model).to(dtype)
    return misfit_of(twin, lambda: _compared(twin, shape, dtype))


@torch.enable_grad()
def _compared(twin: nn.Module, shape: torch.Size, dtype: torch.dtype) -> tuple[str, Tensors]:
    """Return the misfit of a network's engines in words, or "", and autograd's gradients."""
    device = next(twin.parameters()).device
    rng = torch.Generator().manual_seed(0)
    noise = torch.rand(TRIALS, min(shape[0], 2), *shape[1:], generator=rng)
    images = noise.to(device, dtype).requires_grad_()
    labels = torch.zeros(images.shape[:2], dtype=torch.int64, device=device)
    along = {n: torch.randn(p.shape, generator=rng).to(p) for n, p in twin.named_parameters()}

    def with_derivative(found: Tensors) -> Tensors:
        """Return the gradients, and the derivative in the images of their inner product with a direction."""
        total = torch.stack([(found[name] * v).sum() for name, v in along.items()]).sum()
        (slope,) = torch.autograd.grad(total, images, materialize_grads=True)
        return {name: value.detach() for name, value in found.items()} | {_DERIVATIVE: slope}

    try:
        wanted, losses = plain_gradients(twin, images, labels)
        (slope,) = torch.autograd.grad(losses.sum(), images, retain_graph=True, materialize_grads=True)
        expected = with_derivative(wanted) | {_SLOPE: slope}
    except (RuntimeError, ValueError, TypeError) as problem:
        text = " ".join(str(problem).split())
        raise Unfit(f"attack: autograd has no gradients of the victim ({text}; mend its code)") from problem
    for name, layer in twin.named_modules():
        if next(layer.parameters(recurse=False), None) is not None and rule(layer) is None:
            kind = type(layer).__name__
            return f"{name or 'the network'} ({kind}): no rule for the gradient of its weights", {}
    steps = chain(twin)
    try:
        found = [with_derivative(tape_gradients(twin, images, labels)[0])]
        found += [_multiplied(layer_passes(twin, images, labels, differentiable=False)[0])]
        if steps:
            found += [with_derivative(chain_gradients(steps, images, labels)[0])]
            found += [{_SLOPE: _slope(steps, images.detach(), labels)}]
    except MISFITS as problem:
        return " ".join(str(problem).split()), {}
    apart = next(filter(None, (apart_in_words(each, expected) for each in found)), "")
    return apart, {name: value.detach() for name, value in wanted.items()}


def _multiplied(passes: list[tuple[Taped, Tensor]]) -> Tensors:
    """Return the weight gradients of the layers whose rule writes them as products of two matrices."""
    found: Tensors = {}
    for step, delta in passes:
        known = rule(step.layer)
        if known is not None and known.operands is not None:
            name = f"{step.name}.weight" if step.name else "weight"
            x, d = known.operands(step.layer, step.read, delta, TRIALS)
            gradient = (d.mT @ x).view(TRIALS, *step.layer.get_parameter("weight").shape).detach()
            found[name] = found[name] + gradient if name in found else gradient
    return found


@torch.no_grad()
def _slope(steps: list[Hop], images: Tensor, labels: Tensor) -> Tensor:
    """Return the losses' derivative in the images, by a pass that keeps the pattern of an earlier one."""
    passed = forth(steps, images, forth(steps, images).kept)
    found = back(steps, passed, entropy(passed.returned, labels).slope, None, whole=True)[0]
    return apart(found, images.shape)
