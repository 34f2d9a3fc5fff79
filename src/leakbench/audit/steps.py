"""What one step of a client's training consists of: causes of its gradient and its move, and its loss."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from leakbench.audit.network import classes_in, entropy
from leakbench.base.tensors import Tensors
from leakbench.base.yamls import read_yaml
from leakbench.observations.observation import LOSS

# Two updates are equal if their distance is below this share of their norm, or below rounding, as a share of
# the norm of the weights.
SAME, ROUNDING = 1e-3, 2e-7
# The same share for slopes of losses: two smoothed classes are nearly a mean cross-entropy of a lower weight.
EXACT = 1e-5
# Of fewer values, two causes explain anything.
FEW = 5
# The arguments of losses that change them, and what training code may do to scores before a loss.
ARGUMENTS = {"weight", "pos_weight", "label_smoothing", "beta", "delta"}
THROUGH = (
    lambda z: z, lambda z: z.log_softmax(1), torch.sigmoid, lambda z: z.softmax(1), lambda z: z.flatten(),
    lambda z: z.sigmoid().flatten(),
)  # fmt: skip


@cache
def words(kind: str) -> dict[str, str]:
    """Return sentences of an audit (words.yaml)."""
    return dict(read_yaml(Path(__file__).with_name("words.yaml"))[kind])


@dataclass
class Pass:
    """A forward pass of the client's network: what went in and came out, and the slope of the loss there."""

    of: nn.Module
    inputs: Any
    chance: Tensor
    training: list[bool]
    autocast: tuple[bool, torch.dtype]
    state: Tensors  # parameters and buffers
    outputs: list[Tensor] = field(default_factory=list)
    slopes: dict[int, Tensor] = field(default_factory=dict)
    # The slopes without what reaches the loss through other outputs, such as the scores of features.
    direct: dict[int, Tensor] = field(default_factory=dict)
    # Each loss function that was called, its target and its other arguments.
    losses: list[tuple[Callable[..., Tensor], Tensor, dict[str, Any]]] = field(default_factory=list)

    def records(self) -> int:
        return len(next(v for v in tree_leaves(self.inputs) if isinstance(v, Tensor) and v.dim()))


@dataclass
class Step:
    """What a step of an optimiser consists of, as a replay finds it."""

    # Cause → its factor in the gradient, or in the move of the weights. None if they hold something else.
    gradient: dict[str, float] | None
    move: dict[str, float] | None
    rest: float  # the share of the gradient that is something else
    norm: float  # of the gradient
    # The tensors that decay, in the gradient and in the move. Tensor → its rate, as a share of the largest.
    decays: tuple[set[str], set[str]]
    rates: dict[str, float]


def fit(
    target: Tensors, causes: dict[str, Tensors], slack: float, same: float = SAME
) -> tuple[dict[str, float] | None, float]:
    """Return the factors of the fewest causes that add up to `target`, or None, and the share left."""
    # The first cause is in every sum. Then one other thing at a time is tried, and at last all of them.
    whole = dot(target, target) ** 0.5
    sizes = {name: size for name, each in causes.items() if (size := dot(each, each) ** 0.5) > 0}
    first, others, least = list(sizes)[:1], list(sizes)[1:], 1.0
    for chosen in (first, *([*first, name] for name in others), list(sizes)):
        products = [[dot(causes[a], causes[b]) / sizes[a] / sizes[b] for b in chosen] for a in chosen]
        wanted = [[dot(causes[a], target) / sizes[a]] for a in chosen]
        both = [torch.tensor(each, dtype=torch.float64) for each in (products, wanted)]
        if not chosen or not all(bool(each.isfinite().all()) for each in both):
            continue
        solved = torch.linalg.lstsq(*both, driver="gelsd").solution
        factors = {name: float(v) / sizes[name] for name, v in zip(chosen, solved.flatten(), strict=True)}
        left = {n: v - sum(f * causes[name][n] for name, f in factors.items()) for n, v in target.items()}
        apart = dot(left, left) ** 0.5
        if apart <= same * whole + slack:
            counts = {name for name, f in factors.items() if abs(f) * sizes[name] > SAME * whole}
            return {n: f for n, f in factors.items() if n in {*first, *counts}}, apart / (whole or 1.0)
        least = min(least, apart / whole)
    return None, least


def same(one: Tensors, other: Tensors) -> bool:
    """Return whether weights are those of `other`, up to rounding."""
    apart = {n: v - other[n] for n, v in one.items() if n in other and v is not other[n]}
    return dot(apart, apart) <= ROUNDING**2 * dot(other, other)


def explained(
    target: Tensors, gradient: Tensors, causes: dict[str, Tensors], slack: float = 0.0
) -> tuple[dict[str, float] | None, float, set[str]]:
    """Return what `fit` does of a gradient and causes; and the tensors that have the first of these."""
    name, own = next(iter(causes.items()))
    for some in (set(own), {n for n, v in own.items() if _decays(target[n], gradient[n], v)}):
        part = {name: {n: v * (n in some) for n, v in own.items()}}
        found, rest = fit(target, {"gradient": gradient} | causes | part, slack)
        if found is not None:
            break
    return found, rest, some


def _decays(moved: Tensor, made: Tensor, weights: Tensor) -> bool:
    """Return whether a tensor moves by a share of itself, or of its signs, beside its gradient."""
    moved, made, weights = (each.flatten().double() for each in (moved, made, weights))
    basis = made / made.norm() if made.any() else made
    rest, own = (each - basis * (basis @ each) for each in (moved, weights))
    slack = SAME * moved.norm() + ROUNDING * weights.norm()
    if len(made) < FEW or rest.norm() <= slack:
        return False
    return bool((rest - own * (own @ rest) / (own @ own)).norm() <= slack)


def dot(one: Tensors, other: Tensors) -> float:
    return sum(float(value.flatten().double() @ other[n].flatten().double()) for n, value in one.items())


def loss(one: Pass, targets: Tensor | None) -> tuple[str, float]:
    """Return the loss of a pass in words, and the factor in it of the mean cross-entropy, or 0."""
    slopes = one.direct or one.slopes
    places = [p for p in sorted(slopes) if one.outputs[p].dim() and slopes[p].any()]
    if not places:
        return "computed by the network itself", 0.0
    found = [_of_scores(one, one.outputs[p].float().requires_grad_(), slopes[p], targets) for p in places]
    if len(found) == 1:
        return found[0]
    # A network may return several heads, and each has a loss of its own.
    return f"{' and '.join(dict.fromkeys(word for word, _ in found))} of {len(found)} outputs", 0.0


def direct(outputs: list[Tensor], slopes: dict[int, Tensor]) -> dict[int, Tensor]:
    """Return the slopes at outputs without what reaches the loss through outputs that are computed later."""
    found: dict[int, Tensor] = {}
    for place in sorted(slopes, key=lambda p: -getattr(outputs[p].grad_fn, "_sequence_nr", int)()):
        whole, later = slopes[place].to(outputs[place]), [outputs[p] for p in found]
        through = torch.autograd.grad(
            later, outputs[place], [*found.values()], retain_graph=True, allow_unused=True
        )[0] if later else None  # fmt: skip
        own = whole if through is None else whole - through
        if own.norm() > max(EXACT, 4 * torch.finfo(own.dtype).eps) * whole.norm():
            found[place] = own
    return found


def _of_scores(one: Pass, scores: Tensor, slope: Tensor, targets: Tensor | None) -> tuple[str, float]:
    """Return the loss of some scores, whose slope is known, in words, and the factor of entropy."""
    low = torch.finfo(slope.dtype).eps
    if scores.dim() == 2 and bool((scores.logsumexp(1).abs() <= EXACT).all()):
        # The logarithms of probabilities have a slope at the scores behind them.
        slope = slope - scores.detach().exp().to(slope) * slope.sum(1, keepdim=True)
    own, slack = {"": slope.float()}, low * float(slope.float().norm())
    # Share left → loss and factor. Scores of a low precision fit several losses, and the nearest is meant.
    near: dict[float, tuple[str, float]] = {}
    for target in (targets, *(target for _, target, _ in one.losses)):
        if not near and target is not None and classes_in(target, scores):
            plain = {"": torch.autograd.grad(entropy(scores, target), scores)[0]}
            factors, rest = fit(own, {"": plain}, slack, EXACT)
            if factors:
                # Such scores also leave a factor that is nearly whole.
                whole = float(round(factor := factors[""]))
                near[rest] = LOSS, whole if whole and abs(factor - whole) <= 2 * low * whole else factor
    found: list[tuple[str, Tensors]] = []
    for function, target, named in one.losses:
        words, first = function.__name__.replace("_", " "), None
        for key in ARGUMENTS & named.keys():
            if isinstance(value := named[key], Tensor) or value:
                words += f" ({key.replace('_', ' ')}{'' if isinstance(value, Tensor) else f' {value}'})"
        for through in THROUGH:
            with suppress(RuntimeError, ValueError, IndexError, TypeError), catch_warnings():
                simplefilter("ignore")
                value = function(through(scores), target, **named)
                made = {"": torch.autograd.grad(value.sum(), scores)[0]}
                first = first or made
                factors, rest = fit(own, {"": made}, slack, EXACT)
                # Only an argument that was seen speaks against the mean cross-entropy.
                if factors and (words.endswith(")") or not near):
                    near.setdefault(rest, (words, 0.0))
        found += [(words, first)] if first else []
    if near:
        return near[min(near)]
    if len(found) > 1 and fit(own, {str(place): each for place, (_, each) in enumerate(found)}, slack)[0]:
        return " and ".join(words for words, _ in found), 0.0
    return "not one that was recorded" if one.losses else "not one of torch's own", 0.0
