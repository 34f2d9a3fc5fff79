"""The gradients of a chain of layers, and their derivative as a rate (Pearlmutter 1994) instead of by a
second tape.

Let V be the cotangent of the weight gradients g(x). Then <V, g(x)> is the rate at which the loss grows as the
weights move along V, and its derivative in x is the rate of the loss's own. So one pass of rates forward and
one back, beside the values that the first two passes kept, give what the tape works out of a graph of its own
derivatives.

Activations and their slopes are [n, …] for all trials' images, weights' rates [trials, *shape].
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakbench.matching.batch_statistics import bent, pulled, standardise
from leakbench.matching.fixed_convolution import FixedConv2d, transposed
from leakbench.matching.unlocked import FACTORS, Unlocked
from leakbench.matching.weight_gradient import FUSED_BELOW, outer
from leakbench.matching.windows import FEW, fold, places, unfold
from leakbench.tensors import Tensors
from leakbench.victims.layers import Dropout

aten = torch.ops.aten
# Fewer outputs than a vector register holds: then the places are better the columns of a product.
NARROW = 16
Kept = Sequence[Tensor]


class Rule(NamedTuple):
    """What a layer does in each of the four passes; `read` is the shape of what it read, `kept` what
    `forward` keeps.

    forward(layer, x, trials) → what it returns, kept. backward(layer, kept, read, slope) → the loss's slope
    at what it read. rate(layer, kept, read, rate, own) → the rate of what it returns, of that of what it
    reads (None: it does not move) and of those of its own parameters. back(layer, kept, read, slope, moved,
    rate, own) → the rate of `backward`, of that of `slope`; `moved` is the rate of what it read.
    gradients(layer, kept, slope, trials) → parameter → [trials, *shape].
    """

    forward: Callable[..., tuple[Tensor, Kept]]
    backward: Callable[..., Tensor]
    rate: Callable[..., Tensor]
    back: Callable[..., Tensor]
    gradients: Callable[..., Tensors] = lambda *_: {}


def _linear_map(forward: Callable[..., tuple[Tensor, Kept]], backward: Callable[..., Tensor]) -> Rule:
    """Return the rule of a layer without parameters whose rates go the way of its values."""
    return Rule(
        forward,
        backward,
        lambda layer, kept, read, rate, own: forward(layer, rate, 0)[0],
        lambda layer, kept, read, slope, moved, rate, own: backward(layer, kept, read, rate),
    )


def _activation(
    function: Callable[[Tensor], Tensor],
    times_slope: Callable[[Tensor, Tensor], Tensor],
    curvature: Callable[[Tensor], Tensor] | None,
) -> Rule:
    """Return the rule of y = function(x): times_slope(t, y) = t·y'; curvature(y) = y''/y', None: nothing."""

    def back(
        layer: nn.Module, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
        own: Tensors
    ) -> Tensor:  # fmt: skip
        (y,) = kept
        found = times_slope(rate, y)
        if moved is None or curvature is None:
            return found
        return found.addcmul_(times_slope(slope, y).mul_(moved), curvature(y))

    def forward(layer: nn.Module, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
        y = function(x)
        return y, (y,)

    return Rule(
        forward,
        lambda layer, kept, read, slope: times_slope(slope, kept[0]),
        lambda layer, kept, read, rate, own: times_slope(rate, kept[0]),
        back,
    )


def _rows(slope: Tensor) -> Tensor:
    """Return slopes at a convolution's outputs [n, out, rows, columns] by place: [n, places, out]."""
    return slope.permute(0, 2, 3, 1).flatten(1, 2)


def _by_window(weight: Tensor, n: int) -> Tensor:
    """Return weights [trials or not, out, channels, tall, wide] for each of n images, as `unfold` reads
    windows: [n, out, window]."""
    flat = weight.movedim(-3, -1).flatten(-3)
    if flat.dim() == 2:
        return flat.expand(n, -1, -1)
    return flat if len(flat) == n else flat.repeat_interleave(n // len(flat), 0)


def _convolved(columns: Tensor, weight: Tensor, bias: Tensor | None, size: tuple[int, int]) -> Tensor:
    """Return [n, out, *size] of windows [n, places, window] and weights [n, out, window], bias […, out]."""
    narrow = weight.shape[1] < NARROW
    found = weight @ columns.mT if narrow else (columns @ weight.mT).mT
    if bias is not None:
        found += bias[..., None]
    return found.unflatten(2, size)


def _conv_forward(conv: nn.Conv2d, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    columns, size = unfold(x, conv), places(conv, *x.shape[2:])
    return _convolved(columns, _by_window(conv.weight, len(x)), conv.bias, size), (columns,)


def _conv_gradients(conv: nn.Conv2d, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    rows = _rows(slope)
    each = (rows.mT @ kept[0]).unflatten(0, (trials, -1)).sum(1)
    out, channels, *window = conv.weight.shape
    weight = each.view(trials, out, *window, channels).movedim(-1, 2)
    if conv.bias is None:
        return {"weight": weight}
    return {"weight": weight, "bias": rows.unflatten(0, (trials, -1)).sum((1, 2))}


def _conv_rate(conv: nn.Conv2d, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors) -> Tensor:
    bias = own["bias"].repeat_interleave(read[0] // len(own["bias"]), 0) if "bias" in own else None
    found = _convolved(kept[0], _by_window(own["weight"], read[0]), bias, places(conv, *read[2:]))
    if rate is not None:
        found += nn.functional.conv2d(rate, conv.weight, None, conv.stride, conv.padding, conv.dilation)
    return found


def _conv_back(
    conv: nn.Conv2d, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
    own: Tensors
) -> Tensor:  # fmt: skip
    rates, slopes = _rows(rate), _rows(slope)
    fixed, moving = (_by_window(weight, read[0]) for weight in (conv.weight, own["weight"]))
    if read[1] < FEW:
        taps = (fixed.mT @ rates.mT).baddbmm_(moving.mT, slopes.mT)
        return fold(taps.mT, read, conv)
    return fold((rates @ fixed).baddbmm_(slopes, moving), read, conv)


def _dense_gradients(layer: nn.Linear, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    slopes, inputs = (value.unflatten(0, (trials, -1)) for value in (slope, kept[0]))
    weight = outer(slopes, inputs)
    return {"weight": weight} if layer.bias is None else {"weight": weight, "bias": slopes.sum(1)}


def _dense_rate(layer: nn.Linear, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors) -> Tensor:
    found = kept[0].unflatten(0, (len(own["weight"]), -1)) @ own["weight"].mT
    if "bias" in own:
        found += own["bias"][:, None]
    flat = found.flatten(0, 1)
    return flat if rate is None else flat.addmm_(rate, layer.weight.T)


def _dense_back(
    layer: nn.Linear, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
    own: Tensors
) -> Tensor:  # fmt: skip
    found = slope.unflatten(0, (len(own["weight"]), -1)) @ own["weight"]
    return found.flatten(0, 1).addmm_(rate, layer.weight)


Normed = nn.BatchNorm2d | Unlocked


def _by_channel(value: Tensor, n: int) -> Tensor:
    """Return what each trial's channels have, or all trials', [trials or 1, channels], beside images [n,
    channels, rows, columns]."""
    return (
        value[:, :, None, None]
        if len(value) == 1
        else value.repeat_interleave(n // len(value), 0)[:, :, None, None]
    )


def _scaled(u: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """Return what a norm's rate is of that of what it reads, before its gain, or its slope of that behind it:
    one linear map.

    `scale`: 1 / deviation, [channels] of its own statistics, else [trials, 1, channels, 1, 1] of each
    trial's.
    """
    return u * scale[:, None, None] if scale.dim() == 1 else pulled(u, normed, scale)


def _norm_forward(norm: Normed, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    if norm.running_mean is None or norm.running_var is None:
        normed, scale = standardise(x, trials, norm.eps)
    else:
        scale = (norm.running_var + norm.eps).rsqrt()
        normed = (x - norm.running_mean[:, None, None]) * scale[:, None, None]
    gain, shift = norm.factors if isinstance(norm, Unlocked) else (norm.weight[None], norm.bias[None])
    gain, shift = (_by_channel(value, len(x)) for value in (gain, shift))
    return torch.addcmul(shift, normed, gain), (normed, scale, gain)


def _norm_backward(norm: Normed, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    normed, scale, gain = kept
    return _scaled(slope * gain, normed, scale)


def _norm_rate(norm: Normed, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors) -> Tensor:
    normed, scale, gain = kept
    gains, shifts = (_by_channel(value, read[0]) for value in own.values())
    found = torch.addcmul(shifts, normed, gains)
    return found if rate is None else found.addcmul_(_scaled(rate, normed, scale), gain)


def _norm_back(
    norm: Normed, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
    own: Tensors
) -> Tensor:  # fmt: skip
    normed, scale, gain = kept
    gains, _ = (_by_channel(value, read[0]) for value in own.values())
    found = _scaled((rate * gain).addcmul_(slope, gains), normed, scale)
    if moved is None or scale.dim() == 1:
        return found
    return found.add_(bent(slope * gain, moved, normed, scale))


def _norm_gradients(norm: Normed, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    names = FACTORS if isinstance(norm, Unlocked) else ("weight", "bias")
    each = zip(names, (slope * kept[0], slope), strict=True)
    return {name: value.unflatten(0, (trials, -1)).sum((1, 3, 4)) for name, value in each}


def _factor_rates(
    kept: Kept, slope: Tensor, moved: Tensor | None, rate: Tensor, trials: int
) -> tuple[Tensor, Tensor]:
    """Return the rates of the loss's slopes at a lock's scale and shift, [trials, channels] each."""
    normed, scale, _ = kept
    found = rate * normed
    if moved is not None:
        found.addcmul_(slope, _scaled(moved, normed, scale))
    at_scale, at_shift = (value.unflatten(0, (trials, -1)).sum((1, 3, 4)) for value in (found, rate))
    return at_scale, at_shift


def _pool_forward(pool: nn.MaxPool2d, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    found, chosen = nn.functional.max_pool2d(
        x, pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode, True
    )
    return found, (chosen,)


def _pool_backward(pool: nn.MaxPool2d, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    (chosen,) = kept
    flat = slope.new_zeros(*read[:2], read[2] * read[3])
    return flat.scatter_add_(2, chosen.flatten(2), slope.flatten(2)).view(read)


def _pool_rate(pool: nn.MaxPool2d, kept: Kept, read: torch.Size, rate: Tensor, own: Tensors) -> Tensor:
    (chosen,) = kept
    return rate.flatten(2).gather(2, chosen.flatten(2)).view(chosen.shape)


_CONVOLUTION = Rule(
    _conv_forward,
    lambda conv, kept, read, slope: transposed(slope, conv.weight, conv, read),
    _conv_rate,
    _conv_back,
    _conv_gradients,
)
_NORM = Rule(_norm_forward, _norm_backward, _norm_rate, _norm_back, _norm_gradients)
RULES: dict[type[nn.Module], Rule] = {
    nn.Conv2d: _CONVOLUTION,
    FixedConv2d: _CONVOLUTION,
    nn.Linear: Rule(
        lambda layer, x, trials: (layer(x), (x,)),
        lambda layer, kept, read, slope: slope @ layer.weight,
        _dense_rate,
        _dense_back,
        _dense_gradients,
    ),
    nn.BatchNorm2d: _NORM,
    Unlocked: _NORM,
    nn.Sigmoid: _activation(torch.sigmoid, aten.sigmoid_backward, lambda y: 1 - 2 * y),
    nn.Tanh: _activation(torch.tanh, aten.tanh_backward, lambda y: -2 * y),
    nn.ReLU: _activation(torch.relu, lambda slope, y: aten.threshold_backward(slope, y, 0), None),
    nn.MaxPool2d: Rule(
        _pool_forward,
        _pool_backward,
        _pool_rate,
        lambda pool, kept, read, slope, moved, rate, own: _pool_backward(pool, kept, read, rate),
    ),
    nn.Flatten: _linear_map(
        lambda layer, x, trials: (x.flatten(1), ()), lambda layer, kept, read, slope: slope.reshape(read)
    ),
    Dropout: _linear_map(
        lambda layer, x, trials: (x * layer.keep, ()), lambda layer, kept, read, slope: slope * layer.keep
    ),
    nn.Identity: _linear_map(lambda layer, x, trials: (x, ()), lambda layer, kept, read, slope: slope),
}


def _leaves(model: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]]:
    if type(model) is not nn.Sequential:
        return [(prefix, model)]
    return [
        leaf
        for name, child in model.named_children()
        for leaf in _leaves(child, f"{prefix}.{name}".strip("."))
    ]


def chain(model: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """Return name and layer of each layer of a model that is a chain of those in RULES, else None.

    A normalisation of the images in front of it is the caller's.
    """
    leaves, flat = _leaves(model), False
    for _, layer in leaves:
        flat = flat or isinstance(layer, nn.Flatten)
        if type(layer) not in RULES or not _regular(layer) or (isinstance(layer, nn.Linear) and not flat):
            return None
    return leaves


def _told(layer: nn.Module) -> tuple[str, ...]:
    """Return the names of what a layer tells the gradients of."""
    if isinstance(layer, Unlocked):
        return FACTORS
    return tuple(name for name, _ in layer.named_parameters(recurse=False))


def _regular(layer: nn.Module) -> bool:
    """Return whether a layer of a type in RULES is as its rule takes it."""
    match layer:
        case nn.Conv2d():
            return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
        case nn.MaxPool2d():
            return not layer.ceil_mode
        case nn.BatchNorm2d():
            return layer.affine
        case nn.Flatten():
            return layer.start_dim == 1
    return True


def _unfolds(leaves: list[tuple[str, nn.Module]], images: Tensor) -> bool:
    """Return whether for every convolution unfolding what it reads beats convolving with each trial's own
    weights."""
    batch, size = images.shape[1], tuple(images.shape[-2:])
    for _, layer in leaves:
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d):
            size = places(layer, *size)
        if isinstance(layer, nn.Conv2d) and batch * layer.weight.numel() * math.prod(size) > FUSED_BELOW:
            return False
    return True


class _Gradients(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, images: Tensor, labels: Tensor, leaves: list[tuple[str, nn.Module]], *factors: Tensor
    ) -> tuple[Tensor, ...]:
        trials, batch = images.shape[:2]
        x, steps = images.flatten(0, 1), []
        for _, layer in leaves:
            read = x.shape
            x, kept = RULES[type(layer)].forward(layer, x, trials)
            steps.append((read, kept))
        shares = x.log_softmax(1)
        known = nn.functional.one_hot(labels, x.shape[1]) if labels.dim() == 2 else labels
        wanted = known.flatten(0, 1).to(x)
        losses = -(wanted * shares).sum(1).view(trials, batch).mean(1)
        p, total = shares.exp(), wanted.sum(1, keepdim=True) / batch
        slope = p * total - wanted / batch
        slopes: list[Tensor] = []
        found: list[Tensor] = []
        for place in reversed(range(len(leaves))):
            layer, (read, kept) = leaves[place][1], steps[place]
            rule = RULES[type(layer)]
            slopes.insert(0, slope)
            found[:0] = rule.gradients(layer, kept, slope, trials).values()
            # Nobody asks for the loss's slope at the images.
            if place:
                slope = rule.backward(layer, kept, read, slope)
        ctx.leaves, ctx.reads = leaves, [read for read, _ in steps]
        ctx.counts = [len(kept) for _, kept in steps]
        ctx.save_for_backward(p, total, *slopes, *(each for _, kept in steps for each in kept))
        ctx.shape = images.shape
        ctx.mark_non_differentiable(losses)
        return losses, *found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        p, total, *saved = ctx.saved_tensors
        slopes, rest = saved[: len(ctx.leaves)], iter(saved[len(ctx.leaves) :])
        given = iter(cotangents[1:])
        steps = []
        for (_, layer), count in zip(ctx.leaves, ctx.counts, strict=True):
            own = {name: next(given) for name in _told(layer)}
            steps.append((RULES[type(layer)], layer, [next(rest) for _ in range(count)], own))
        moved: list[Tensor | None] = [None]
        for (rule, layer, kept, own), read in zip(steps, ctx.reads, strict=True):
            still = moved[-1] is None and not own
            moved.append(None if still else rule.rate(layer, kept, read, moved[-1], own))
        last = moved.pop()
        assert last is not None
        apart = last - (p * last).sum(1, keepdim=True)
        rate = p * apart * total
        to_labels = (-apart / ctx.shape[1]).view(*ctx.shape[:2], -1) if ctx.needs_input_grad[1] else None
        to_factors: tuple[Tensor | None, ...] = (None,) * (len(ctx.needs_input_grad) - 3)
        for place in reversed(range(len(steps))):
            rule, layer, kept, own = steps[place]
            if isinstance(layer, Unlocked) and any(ctx.needs_input_grad[3:]):
                to_factors = _factor_rates(kept, slopes[place], moved[place], rate, ctx.shape[0])
            rate = rule.back(layer, kept, ctx.reads[place], slopes[place], moved[place], rate, own)
        return rate.view(ctx.shape), to_labels, None, *to_factors


def chain_gradients(
    leaves: list[tuple[str, nn.Module]], images: Tensor, labels: Tensor, factors: Tensors | None = None
) -> tuple[Tensors, Tensor] | None:
    """Return parameter → gradient [trials, *shape], differentiable once in images, labels and factors, and
    the losses [trials].

    images [trials, batch, channels, rows, columns]; labels [trials, batch] classes, or [trials, batch,
    classes] probabilities. `factors`: what the chain's lock is open with (`unlocked`), whose gradients are
    told too. None where a convolution is too large to be unfolded.
    """
    if not _unfolds(leaves, images):
        return None
    lent = [factors[name] for name in FACTORS] if factors else []
    losses, *found = _Gradients.apply(images, labels, leaves, *lent)
    names = [f"{name}.{own}".strip(".") for name, layer in leaves for own in _told(layer)]
    return dict(zip(names, found, strict=True)), losses
