"""The gradients that dummy images would cause: for many trials at once, and differentiable in the images.

The engines take all trials together: `chain` for networks without branches and small convolutions, `tape`
for any other network of layers that they have rules for. What a network computes beside its layers they do
not see, so the first time that a network is met their gradients are compared with those of plain autograd,
which serves where they differ.
"""

from copy import deepcopy
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from leakbench.errors import Unfit
from leakbench.matching.chain import chain, chain_gradients
from leakbench.matching.hidden import hidden, lent
from leakbench.matching.layers import rule
from leakbench.matching.plain import plain_gradients
from leakbench.matching.tape import tape_gradients
from leakbench.progress import log
from leakbench.tensors import Tensors

# How far an engine's gradient of a parameter may be from autograd's, relative to it.
TOLERANCE = 1e-4
# A parameter whose gradient is smaller than this share of the largest one's is rounding.
ROUNDING = 1e-10
TRIALS = 2
_DERIVATIVE = "the images"
# What an engine may run into with a network that is not as its rules have it.
_NO_RULE = (TypeError, ValueError, RuntimeError, AttributeError, KeyError, IndexError, AssertionError)
_FITS: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()


def gradients(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    weights: Tensors | None = None,
) -> tuple[Tensors, Tensor]:
    """Return parameter → gradient [trials, *shape] and, for their values alone, the losses [trials].

    `images` [trials, batch, channels, rows, columns] must require a gradient (or `weights` must). `labels`
    [trials, batch] are classes, or [trials, batch, classes] probabilities. `weights` replaces the model's
    own. The model is in evaluation mode: batch norm uses its running statistics, so that images of a batch do
    not mix. Where it keeps none it uses those of each trial's batch. Of parameters that are lent to the model
    (`matching.hidden`) there are gradients too.
    """
    if not engines_fit(model, images.shape[1:]):
        return plain_gradients(model, images, labels, weights)
    steps = chain(model) if weights is None else None
    if steps is None:
        return tape_gradients(model, images, labels, weights)
    found, losses = chain_gradients(steps, images, labels)
    order = [name for name, _ in model.named_parameters()]
    return {name: found[name] for name in dict.fromkeys([*order, *found])}, losses


def gradients_at(model: nn.Module, images: Tensor, labels: Tensor, weights: Tensors) -> Tensors:
    """Return parameter → gradient [trials, *shape] at weights that each trial has of its own.

    weights: parameter → [trials, *shape], in which the gradients can be differentiated as in the images.
    images, labels: as of `gradients`. Trials run one after another.
    """
    found = [
        gradients(model, images[n : n + 1], labels[n : n + 1], {name: w[n] for name, w in weights.items()})[0]
        for n in range(len(images))
    ]
    return {name: torch.cat([each[name] for each in found]) for name in weights}


def engines_fit(model: nn.Module, shape: torch.Size, like: nn.Module | None = None) -> bool:
    """Return whether the engines' gradients are those of plain autograd; compared once for each model.

    shape: [batch, channels, rows, columns] of the images, which are noise. like: a model of the same network,
    whose answer holds for this one too. Where the engines do not fit, one line of the log says why. Raises
    Unfit if autograd itself has no gradients of the network.
    """
    if like is not None and like in _FITS:
        _FITS[model] = _FITS[like]
    if model not in _FITS:
        # In float64 what differs is no rounding, but most networks agree in float32, which is faster.
        reason = _misfit(model, shape, torch.float32) and _misfit(model, shape, torch.float64)
        if reason:
            log(f"leakbench attack: plain autograd takes the gradients, one trial at a time: {reason}")
        _FITS[model] = not reason
    return _FITS[model]


@torch.enable_grad()
def _misfit(model: nn.Module, shape: torch.Size, dtype: torch.dtype) -> str:
    """Return where an engine's gradients differ from autograd's, in words; nothing if they do not."""
    device = next(model.parameters()).device
    rng = torch.Generator().manual_seed(0)
    noise = torch.rand(TRIALS, min(shape[0], 2), *shape[1:], generator=rng)
    images = noise.to(device, dtype).requires_grad_()
    labels = torch.zeros(images.shape[:2], dtype=torch.int64, device=device)
    with lent(model, {n: torch.ones(TRIALS, v.shape[1]).to(device, dtype) for n, v in hidden(model).items()}):
        twin = deepcopy(model).to(dtype)
    along = {n: torch.randn(p.shape, generator=rng).to(p) for n, p in twin.named_parameters()}

    def with_derivative(found: Tensors) -> Tensors:
        """Return gradients and, beside them, the derivative in the images of their sum along a direction."""
        total = torch.stack([(found[name] * v).sum() for name, v in along.items()]).sum()
        (slope,) = torch.autograd.grad(total, images, materialize_grads=True)
        return {name: value.detach() for name, value in found.items()} | {_DERIVATIVE: slope}

    try:
        expected = with_derivative(plain_gradients(twin, images, labels)[0])
    except (RuntimeError, ValueError, TypeError) as problem:
        text = " ".join(str(problem).split())
        raise Unfit(f"attack: autograd has no gradients of the victim ({text}; mend its code)") from problem
    for name, layer in twin.named_modules():
        if next(layer.parameters(recurse=False), None) is not None and rule(layer) is None:
            kind = type(layer).__name__
            return f"{name or 'the network'} ({kind}): no rule for the gradient of its weights"
    steps = chain(twin)
    try:
        found = [with_derivative(tape_gradients(twin, images, labels)[0])]
        chained = chain_gradients(steps, images, labels) if steps else None
        found += [with_derivative(chained[0])] if chained else []
    except _NO_RULE as problem:
        return " ".join(str(problem).split())
    largest = max(float(value.norm()) for name, value in expected.items() if name != _DERIVATIVE)
    for each in found:
        for name, value in expected.items():
            apart, whole = float((each[name] - value).norm()), max(float(value.norm()), ROUNDING * largest)
            # A dead network has gradients of zero.
            if not apart <= TOLERANCE * whole:
                return f"the engine's gradient of {name} is off by {apart / (whole or 1):.1g} of it"
    return ""
