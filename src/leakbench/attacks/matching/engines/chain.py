"""The gradients of a network of layers and their derivative in the images, without a second autograd tape.

Let g(x) = ∂L/∂w be the weight gradients that images x cause, and V the cotangent, the derivative of an
objective at g(x). An optimiser needs the derivative of <V, g(x)> in x. Now <V, g(x)> is the rate d/dt L(x, w
+ tV) at t = 0 of the loss as the weights move along V. So its derivative in x is the rate at which the loss's
own derivative ∂L/∂x changes as the weights move along V (Pearlmutter 1994).

Four passes compute everything. The usual forward and backward pass give values, slopes (derivatives of the
loss with respect to a value) and weight gradients. A forward and a backward pass of rates (derivatives of a
value or a slope with respect to t) use what the first two kept. What a layer does in each pass is its `Link`
(`layers.rule`).

Activations, their slopes and rates are [batch, trials·channels, rows, columns], so that a convolution with
`trials` groups gives each trial its own weights; behind a flattening they are [trials, batch, features]. The
rates of weights, which are the parts of V, are [trials, *shape].
"""

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn

from leakbench.attacks.matching.engines.layers import RULES, rule
from leakbench.attacks.matching.engines.layers.norm import own_rates
from leakbench.attacks.matching.engines.layers.rule import Kept, Link
from leakbench.base.tensors import Tensors
from leakbench.networks.per_trial import HiddenNorm, own_names

_SUMS = {operator.add, operator.iadd, torch.add, "add", "add_"}
_FLATTENINGS = {torch.flatten, "flatten"}
# Place → what stands there: values, slopes or rates. Where nothing stands, nothing moves.
Values = dict[int, Tensor]
_TRACED: WeakKeyDictionary[nn.Module, "list[Hop] | None"] = WeakKeyDictionary()


class Hop(NamedTuple):
    """One layer of a network, as a step of the chain.

    name: the layer's name; "" for a sum or a flattening that no module computes.
    reads: the places of the values whose sum the step reads. Place 0 is the images, place i what step i − 1
    returns.
    told: the names of the layer's own parameters, whose gradients the step computes.
    """

    name: str
    layer: nn.Module
    reads: tuple[int, ...]
    link: Link
    told: tuple[str, ...]


class _RuleTracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return rule(m) is not None or super().is_leaf_module(m, module_qualified_name)


def chain(model: nn.Module) -> list[Hop] | None:
    """Return the steps of a model that is made of registered layers, sums and flattenings, else None."""
    if model not in _TRACED:
        try:
            _TRACED[model] = _steps(model, _RuleTracer().trace(model))
        except (fx.proxy.TraceError, TypeError, ValueError, RuntimeError, AttributeError, KeyError):
            # The forward pass does something with its values that cannot be traced.
            _TRACED[model] = None
    return _TRACED[model]


def _steps(model: nn.Module, graph: fx.Graph) -> list[Hop] | None:
    steps: list[Hop] = []
    # The places whose sum each node of the graph is, and of each place whether its value is flattened.
    places: dict[Any, tuple[int, ...]] = {}
    flat = [False]

    def added(name: str, layer: nn.Module, reads: tuple[int, ...]) -> tuple[int]:
        link = RULES[type(layer)].link
        assert link is not None
        steps.append(Hop(name, layer, reads, link, own_names(layer)))
        flat.append(isinstance(layer, nn.Flatten) or flat[reads[0]])
        return (len(steps),)

    for node in graph.nodes:
        sources = [places[each] for each in node.args if each in places]
        if node.op == "placeholder":
            places[node] = (0,)
        elif node.op == "call_module" and len(sources) == 1:
            layer = model.get_submodule(node.target)
            known = rule(layer)
            again = any(layer is step.layer for step in steps) and own_names(layer)
            if known is None or known.link is None or again:
                return None
            if isinstance(layer, nn.Linear) and not flat[sources[0][0]]:
                return None
            places[node] = added(node.target, layer, sources[0])
        elif node.op.startswith("call_") and node.target in _SUMS and len(sources) == 2 and not node.kwargs:
            both = sources[0] + sources[1]
            # A sum that several layers read is taken once.
            places[node] = added("", nn.Identity(), both) if len(node.users) > 1 else both
        elif node.op.startswith("call_") and node.target in _FLATTENINGS and node.args[1:] == (1,):
            places[node] = added("", nn.Flatten(), sources[0])
        elif node.op == "output" and sources:
            if sources[0] != (len(steps),):
                added("", nn.Identity(), sources[0])
        else:
            return None
    return steps if flat[-1] else None


def summed(values: Values, places: Sequence[int]) -> Tensor | None:
    """Return the sum of the values at these places, or None if there are none."""
    known = [values[place] for place in places if place in values]
    return sum(known[1:], known[0]) if known else None


def spread(value: Tensor, places: Sequence[int], into: Values) -> None:
    """Add a value to the value at each of these places of `into`."""
    for place in places:
        into[place] = into[place] + value if place in into else value


def as_channels(images: Tensor) -> Tensor:
    """Lay the images of all trials beside each other, as channels."""
    trials, batch, channels, rows, columns = images.shape
    if trials == 1 and images.is_cuda:
        return images[0].contiguous()
    if batch == 1:
        # Transposing a matrix is five times as fast as permuting more axes.
        found = images.reshape(trials * channels, -1).T.contiguous().view(1, rows, columns, -1)
    else:
        found = images.permute(1, 3, 4, 0, 2).reshape(batch, rows, columns, trials * channels)
    return found.permute(0, 3, 1, 2)


def apart(images: Tensor, shape: torch.Size) -> Tensor:
    """Undo `as_channels`: return the images of each trial, [trials, batch, channels, rows, columns]."""
    return images.unflatten(1, (shape[0], shape[2])).transpose(0, 1).contiguous()


class Forth(NamedTuple):
    """What a pass leaves: logits [trials, batch, classes], the shapes that steps read, what they kept."""

    returned: Tensor
    reads: list[torch.Size]
    kept: list[Kept]


def forth(steps: Sequence[Hop], images: Tensor, pattern: Sequence[Kept] | None = None) -> Forth:
    """Take images through the steps, the first of the four passes."""
    trials = images.shape[0]
    values: Values = {0: as_channels(images)}
    reads, kepts = [], []
    for place, step in enumerate(steps):
        x = summed(values, step.reads)
        assert x is not None
        if pattern is not None and step.link.kinked:
            kept = pattern[place]
            y = step.link.rate(step.layer, kept, x.shape, x, {}, trials)
        else:
            y, kept = step.link.forward(step.layer, x, trials)
        values[place + 1] = y
        reads.append(x.shape)
        kepts.append(kept)
    return Forth(y, reads, kepts)


class Entropy(NamedTuple):
    """The mean cross-entropy [trials] of logits, its slope in them, and what further derivatives need."""

    losses: Tensor
    slope: Tensor
    shares: Tensor
    chances: Tensor
    total: Tensor


def entropy(logits: Tensor, labels: Tensor) -> Entropy:
    """Return the cross-entropy of logits."""
    shares = logits.log_softmax(2)
    if labels.dim() == 2:
        # `one_hot` reads the labels to check them, which takes longer.
        wanted = torch.zeros_like(shares).scatter_(2, labels[:, :, None], 1.0)
    else:
        wanted = labels.to(shares)
    batch = logits.shape[1]
    chances, total = shares.exp(), wanted.sum(2, keepdim=True) / batch
    slope = chances * total - wanted / batch
    return Entropy(-(wanted * shares).sum(2).mean(1), slope, shares, chances, total)


def back(
    steps: Sequence[Hop], passed: Forth, slope: Tensor, told: list[Tensor] | None, whole: bool
) -> Values:
    """Take the slope of the loss back through the steps, the second of the four passes."""
    slopes, found, trials = {len(steps): slope}, [], slope.shape[0]
    for place in reversed(range(len(steps))):
        step, kept, at = steps[place], passed.kept[place], slopes[place + 1]
        if told is not None:
            found.append(step.link.gradients(step.layer, kept, at, trials).values())
        if whole or any(step.reads):
            spread(step.link.backward(step.layer, kept, passed.reads[place], at), step.reads, slopes)
    if told is not None:
        told += [value for values in reversed(found) for value in values]
    return slopes


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, labels: Tensor, steps: list[Hop], *hidden: Tensor
    ) -> tuple[Tensor, ...]:
        passed = forth(steps, images)
        found: list[Tensor] = []
        loss = entropy(passed.returned, labels)
        # The slope of the loss at the images is not needed.
        slopes = back(steps, passed, loss.slope, found, whole=False)
        ctx.steps, ctx.shape, ctx.reads = steps, images.shape, passed.reads
        ctx.counts = [len(kept) for kept in passed.kept]
        kept = (each for kept in passed.kept for each in kept)
        each = (slopes[place + 1] for place in range(len(steps)))
        ctx.save_for_backward(loss.chances, loss.total, *each, *kept)
        ctx.mark_non_differentiable(loss.losses)
        return loss.losses, *found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        p, total, *saved = ctx.saved_tensors
        slopes, rest = saved[: len(ctx.steps)], iter(saved[len(ctx.steps) :])
        given = iter(cotangents[1:])
        kepts = [[next(rest) for _ in range(count)] for count in ctx.counts]
        owns = [{name: next(given) for name in step.told} for step in ctx.steps]
        # The third pass: the rates of what each step reads and returns. The images do not move, and a step
        # moves only if it reads something that moves or has parameters.
        moved: Values = {}
        reads: list[Tensor | None] = []
        for place, (step, kept, own) in enumerate(zip(ctx.steps, kepts, owns, strict=True)):
            rate = summed(moved, step.reads)
            reads.append(rate)
            if rate is not None or own:
                size = ctx.reads[place]
                moved[place + 1] = step.link.rate(step.layer, kept, size, rate, own, ctx.shape[0])
        last = moved.pop(len(ctx.steps))
        # The rate of the probabilities p is p · bent. The slope at the logits is p · total minus the labels
        # over the batch size, so its rate is p · bent · total.
        bent = last - (p * last).sum(2, keepdim=True)
        to_labels = -bent / ctx.shape[1] if ctx.needs_input_grad[1] else None
        rates: Values = {len(ctx.steps): p * bent * total}
        # The fourth pass: the rates of the slopes, from the logits back to the images.
        to_hidden: list[Tensor] = []
        for place in reversed(range(len(ctx.steps))):
            step, kept, slope, rate = ctx.steps[place], kepts[place], slopes[place], rates[place + 1]
            if isinstance(step.layer, HiddenNorm):
                to_hidden[:0] = own_rates(step.layer, kept, slope, reads[place], rate, ctx.shape[0])
            moves = step.link.back(step.layer, kept, ctx.reads[place], slope, reads[place], rate, owns[place])
            spread(moves, step.reads, rates)
        return apart(rates[0], ctx.shape), to_labels, None, *to_hidden


def chain_gradients(steps: list[Hop], images: Tensor, labels: Tensor) -> tuple[Tensors, Tensor]:
    """Return the weight gradients of a chain for each trial, and the losses."""
    norms = (step.layer for step in steps if isinstance(step.layer, HiddenNorm))
    lent = [each for norm in norms for each in (norm.weight, norm.bias)]
    losses, *found = _Gradients.apply(images, labels, steps, *lent)
    names = [f"{step.name}.{own}" for step in steps for own in step.told]
    return dict(zip(names, found, strict=True)), losses
