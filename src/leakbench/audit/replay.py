"""What a client's training function did: recorded while it runs, and each step computed again."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from warnings import catch_warnings, simplefilter

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from leakbench.audit.options import is_rate
from leakbench.audit.round import (
    PLAIN,
    Round,
    classes_in,
    entropy,
    failing,
    finite,
    leaves,
    precisions_in,
    uncompiled,
)
from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors

# Two updates are equal if their distance is below this share of their norm, or below rounding, as a share of
# the norm of the weights.
SAME, ROUNDING = 1e-3, 2e-7
# Of fewer values, two causes explain anything.
FEW = 5
# SECONDS: after this time no further step is computed again. LARGEST: the number of parameters above which no
# step is, because six copies of the network would not fit into memory.
SECONDS, LARGEST = 30.0, 30_000_000
# The arguments of losses that change them, and what training code may do to scores before a loss.
ARGUMENTS = {"weight", "pos_weight", "label_smoothing", "beta", "delta"}
THROUGH = (
    lambda z: z, lambda z: z.log_softmax(1), torch.sigmoid, lambda z: z.softmax(1), lambda z: z.flatten(),
    lambda z: z.sigmoid().flatten(),
)  # fmt: skip
# What else a gradient may consist of → in words, with its factor and the norm of the gradient.
CAUSES = {
    "weights": "its gradient has {:.3g} times the weights (their decay in the loss)",
    "pull": "its gradient has {:.3g} times the way from the weights that were sent (FedProx)",
    "scale": "the gradient is {:.3g} times that of the loss (clipped to a norm of {:.3g}, or scaled)",
    "unknown": "the gradient differs by {:.0%} from that of the recorded passes (values clipped one by one, "
    "noise, or another term)",
    "before": "the gradient of the step before is added (no zero_grad)",
}


@dataclass
class Pass:
    """A forward pass of the client's network: what went in and came out, and the slope of the loss there."""

    inputs: Any
    chance: Tensor
    training: list[bool]
    autocast: tuple[bool, torch.dtype]
    outputs: list[Tensor] = field(default_factory=list)
    slopes: dict[int, Tensor] = field(default_factory=dict)
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
    # The share of the gradient that is something else.
    rest: float
    # The norm of the gradient.
    norm: float


def fit(target: Tensors, causes: dict[str, Tensors], slack: float) -> tuple[dict[str, float] | None, float]:
    """Return the factors of the fewest causes that add up to `target`, or None, and the share left."""
    # The first cause is in every sum. Then one other thing at a time is tried, and at last all of them.
    whole = _dot(target, target) ** 0.5
    sizes = {name: size for name, each in causes.items() if (size := _dot(each, each) ** 0.5) > 0}
    first, others, least = list(sizes)[:1], list(sizes)[1:], 1.0
    for chosen in (first, *([*first, name] for name in others), list(sizes)):
        products = [[_dot(causes[a], causes[b]) / sizes[a] / sizes[b] for b in chosen] for a in chosen]
        wanted = [[_dot(causes[a], target) / sizes[a]] for a in chosen]
        both = [torch.tensor(each, dtype=torch.float64) for each in (products, wanted)]
        if not chosen or not all(bool(each.isfinite().all()) for each in both):
            continue
        solved = torch.linalg.lstsq(*both, driver="gelsd").solution
        factors = {name: float(v) / sizes[name] for name, v in zip(chosen, solved.flatten(), strict=True)}
        left = {n: v - sum(f * causes[name][n] for name, f in factors.items()) for n, v in target.items()}
        apart = _dot(left, left) ** 0.5
        if apart <= SAME * whole + slack:
            return factors, apart / (whole or 1.0)
        least = min(least, apart / whole)
    return None, least


def _decays(moved: Tensor, made: Tensor, weights: Tensor) -> bool:
    """Return whether a tensor moves by a share of itself, beside its gradient."""
    moved, made, weights = (each.flatten().double() for each in (moved, made, weights))
    basis = made / made.norm() if made.any() else made
    rest, own = (each - basis * (basis @ each) for each in (moved, weights))
    slack = SAME * moved.norm() + ROUNDING * weights.norm()
    if len(made) < FEW or rest.norm() <= slack:
        return False
    return bool((rest - own * (own @ rest) / (own @ own)).norm() <= slack)


def _dot(one: Tensors, other: Tensors) -> float:
    return sum(float(value.flatten().double() @ other[n].flatten().double()) for n, value in one.items())


class Watch(TorchFunctionMode):
    """Records a network's passes, losses and steps, and computes each step again before it is taken."""

    def __init__(self, targets: Tensor | None = None) -> None:
        super().__init__()
        # The targets of each pass, if they are known.
        self.targets = targets
        self.depth, self.busy, self.spent = 0, False, 0.0
        # The client's network, and a copy of it as it was sent.
        self.model: nn.Module | None = None
        self.sent = nn.Module()
        self.optimiser: torch.optim.Optimizer | None = None
        self.group: dict[str, Any] = {}
        self.trained: set[str] = set()
        self.passes: list[Pass] = []
        self.batches: list[list[Pass]] = []
        # Of each step: the loss in words with the factor of entropy; what it consists of, if that is known.
        self.losses: list[tuple[str, float]] = []
        self.steps: list[Step | None] = []
        self.edited = False
        # The tensors that decay.
        self.decays: set[str] = set()
        self.precisions: set[str] = set()
        # Of the step that is being taken: gradients; weights, and gradients computed again.
        self.given: Tensors = {}
        self.now: tuple[Tensors, Tensors] | None = None
        # Of the step before: gradients, moves of the weights, and the weights after it.
        self.last: tuple[Tensors, Tensors, Tensors] = {}, {}, {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if (name.endswith("_loss") or "cross_entropy" in name) and self.passes and not self.busy:
            named = dict(zip(("input", "target", "weight"), args, strict=False)) | kwargs
            named.pop("input", None)
            if isinstance(target := named.pop("target", None), Tensor) and torch.is_grad_enabled():
                self.passes[-1].losses.append((function, target.detach().clone(), named))
        return function(*args, **kwargs)

    def before(self, module: nn.Module, inputs: Any) -> None:
        """Note the batch that the outermost network reads."""
        self.depth += not self.busy
        trains = torch.is_grad_enabled() and next(module.parameters(), None) is not None
        if self.busy or self.depth > 1 or not trains:
            return
        if self.model is None:
            with failing("the model cannot be copied"), self._alone():
                self.model, self.sent = module, deepcopy(uncompiled(module))
        if module is self.model:
            modes = [layer.training for layer in uncompiled(module).modules()]
            cast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            self.passes.append(Pass(_copied((inputs, {})), torch.get_rng_state(), modes, cast))

    def after(self, module: nn.Module, inputs: Any, *rest: Any) -> None:
        """Note what the network returned, and the slope of the loss there as soon as it is known."""
        self.depth -= not self.busy
        # After a failure there is nothing but a None.
        if self.busy or self.depth or module is not self.model or len(rest) < 2:
            return
        if not torch.is_grad_enabled():
            return
        (kwargs, output), one = rest, self.passes[-1]
        one.inputs = one.inputs[0], _copied(kwargs)
        for place, value in enumerate(leaves(output)):
            one.outputs.append(value.detach())
            if value.requires_grad:
                value.register_hook(lambda slope, place=place, one=one: _add(one.slopes, place, slope))

    def step(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        """Compute the gradient of a step again."""
        self.now, own = None, self._own(optimiser)
        if not own:
            return
        if self.optimiser is None:
            # A scheduler may change the rate later.
            self.optimiser, self.group = optimiser, dict(optimiser.param_groups[0])
        self.trained |= {n for n, p in own.items() if p.grad is not None}
        weights = {n: p.detach().clone() for n, p in own.items()}
        self.edited |= any(not torch.equal(weights[n], v) for n, v in self.last[2].items() if n in weights)
        passes, self.passes = [each for each in self.passes if each.slopes], []
        self.batches.append(passes)
        self.given = {n: p.grad.detach().to_dense().float() for n, p in own.items() if p.grad is not None}
        large = sum(p.numel() for p in own.values()) > LARGEST
        begun = time.perf_counter()
        with self._alone(), suppress(RuntimeError):
            self.losses.append(self._losses(passes) if passes else ("not seen", 0.0))
            if passes and self.given and not large and self.spent <= SECONDS:
                self.given = {n: slope.clone() for n, slope in self.given.items()}
                weights = {n: weights[n] for n in self.given}
                self.now = weights, self._again(passes, weights)
        self.spent += time.perf_counter() - begun

    def stepped(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        """Find out what the step that was taken consists of."""
        own = self._own(optimiser)
        if not own:
            return
        # A step with a closure of its own, such as that of LBFGS, makes passes while it is taken.
        self.batches[-1] += [each for each in self.passes if each.slopes]
        closed, self.passes, given = bool(self.passes), [], self.given
        after = {n: p.detach().clone() for n, p in own.items()}
        for each in self.batches[-1]:
            each.outputs.clear()
        if self.now is None or closed:
            self.steps.append(None)
            self.last = given, {}, after
            return
        begun = time.perf_counter()
        weights, made = self.now
        with self._alone(), torch.no_grad():
            sent = dict(self.sent.named_parameters())
            moved = {n: after[n] - v for n, v in weights.items()}
            away = {n: v - sent[n] for n, v in weights.items()}
            slack = ROUNDING * _dot(weights, weights) ** 0.5
            before: tuple[Tensors, Tensors, Tensors] = {}, {}, {}
            if given.keys() == self.last[0].keys():
                before = self.last
            # Weights decay all together, or those of some tensors do.
            some = {n for n in made for v in (given, moved) if _decays(v[n], made[n], weights[n])}
            for self.decays in (set(made), some):
                decaying = {n: v * (n in self.decays) for n, v in weights.items()}
                causes = {"gradient": made, "weights": decaying, "pull": away}
                gradient, rest = fit(given, causes, 0.0)
                if before[0] and (gradient is None or gradient.get("pull", 0.0) < 0):
                    fresh, left = fit({n: v - before[0][n] for n, v in given.items()}, causes, 0.0)
                    gradient, rest = (fresh | {"before": 1.0}, left) if fresh else (gradient, rest)
                move, _left = fit(moved, causes | {"before": before[1], "earlier": before[0]}, slack)
                if move is not None and gradient is not None:
                    break
            self.steps.append(Step(gradient, move, rest, _dot(given, given) ** 0.5))
        self.last = given, moved, after
        self.spent += time.perf_counter() - begun

    def _own(self, optimiser: torch.optim.Optimizer) -> dict[str, nn.Parameter]:
        if self.model is None or self.busy:
            return {}
        stepped = {id(p) for each in optimiser.param_groups for p in each["params"]}
        named = uncompiled(self.model).named_parameters()
        return {n: p for n, p in named if id(p) in stepped and p.requires_grad}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Record nothing in the block, and leave the client's chance as it was."""
        self.busy = True
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                yield
        finally:
            self.busy = False

    def _again(self, passes: list[Pass], weights: Tensors) -> Tensors:
        assert self.model is not None
        model = deepcopy(self.sent)
        model.load_state_dict(uncompiled(self.model).state_dict())
        parameters = [p for n, p in model.named_parameters() if n in weights]
        total = {n: torch.zeros_like(v) for n, v in weights.items()}
        for one in passes:
            for layer, training in zip(model.modules(), one.training, strict=True):
                layer.training = training
            torch.set_rng_state(one.chance)
            args, kwargs = _copied(one.inputs)
            cast, dtype = one.autocast
            with precisions_in(model, self.precisions), torch.autocast("cpu", dtype, cast):
                outputs = leaves(model(*args, **kwargs))
            # A network may return its own loss beside the scores, which are on the way to it.
            places = sorted(one.slopes, key=lambda place: outputs[place].dim())
            places = places[:1] if not outputs[places[0]].dim() else places
            slopes = [one.slopes[place].to(outputs[place]) for place in places]
            found = torch.autograd.grad([outputs[p] for p in places], parameters, slopes, allow_unused=True)
            for value, each in zip(total.values(), found, strict=True):
                if each is not None:
                    value += each
        return total

    def _losses(self, passes: list[Pass]) -> tuple[str, float]:
        whole = sum(each.records() for each in passes)
        found = [_loss(one, self.targets) for one in passes]
        shares = [share * whole / one.records() for (_, share), one in zip(found, passes, strict=True)]
        same = max(shares) - min(shares) <= SAME * max(map(abs, shares))
        return " and ".join(sorted({word for word, _ in found})), shares[0] if same else 0.0

    def read(self, returned: Any = None) -> Round:
        """Return the round that was trained, and what its replay shows. Raises UserError if there is none."""
        passes = [each for batch in self.batches for each in batch]
        if self.model is None or not self.steps or not passes:
            raise UserError("neither returned (model, loss, batch) nor took a step of an optimiser")
        if any(sum(isinstance(v, Tensor) for v in tree_leaves(each.inputs)) > 1 for each in passes):
            raise UserError(
                "the model takes several inputs: such models are not audited (put it into a module that "
                "takes one tensor of numbers, and fix or split off the others there)"
            )
        inputs = torch.cat([v for one in passes for v in tree_leaves(one.inputs) if isinstance(v, Tensor)])
        if not inputs.is_floating_point() or not 2 <= inputs.dim() <= 4:
            shape = tuple(inputs.shape)
            raise UserError(f"inputs {shape} of {inputs.dtype} are no batch of real numbers or images")
        inputs = inputs.float()
        first = _first(inputs.flatten(1))
        records, size = len(first), sum(each.records() for each in self.batches[0])
        sent, own = (dict(each.named_parameters()) for each in (self.sent, uncompiled(self.model)))
        edited = self.edited or any(not torch.equal(own[n], v) for n, v in self.last[2].items())
        state = uncompiled(self.model).state_dict()
        back = _returned(returned, state)
        edited |= any(not torch.equal(back[n], own[n]) for n in own if n in self.trained)
        update = {n: (back[n].detach() - sent[n].detach()).float() for n in own if n in self.trained}
        if not finite(update):
            raise UserError("no parameter of the model is trained (give the optimiser those of this model)")
        lr = float(self.group["lr"])
        if not is_rate(lr):
            raise UserError(f"the optimiser's rate is {lr:g}, not above 0")
        kept = {name: self.group[name] for name in ("momentum", "weight_decay") if self.group.get(name)}
        name = type(self.optimiser).__name__
        told = "".join(f", {key.replace('_', ' ')} {value:g}" for key, value in kept.items())
        loss, differs, decay = self._replayed(edited, name)
        # Weights that decay tell nothing of the records, and a server knows the factor. It knows that of the
        # loss too. Of one step, nothing but its gradient is left.
        update = {n: v - decay * (n in self.decays) * sent[n].detach() for n, v in update.items()}
        factors = [factor for _, factor in self.losses]
        factor = factors[0] if max(factors) - min(factors) <= SAME * max(factors) else 0.0
        odd = differs.keys() - {"steps", "unchecked", *(["weights"] if len(self.steps) == 1 else [])}
        return Round(
            self.sent.float(), inputs[first], _targets(passes, first), update, "model", lr * (factor or 1.0),
            max(1, len(inputs) // records), None if size >= records else size, f"{name} at rate {lr:g}{told}",
            plain_loss=bool(factor) and not odd, plain_steps=name == "SGD" and not kept, loss=loss,
            differs=differs, replayed=(sum(map(bool, self.steps)), len(self.steps)),
            precision=" and ".join(sorted(self.precisions)),
        )  # fmt: skip

    def _replayed(self, edited: bool, name: str) -> tuple[str, dict[str, str], float]:
        """Return the loss in words, kind → what else the replay found, and the factor of the sent weights."""
        found: dict[str, str] = {}
        steps = [each for each in self.steps if each is not None]
        if len(steps) < len(self.steps):
            found["unchecked"] = (
                f"{len(self.steps) - len(steps)} of {len(self.steps)} steps were not computed again"
            )
        loss = " and ".join(dict.fromkeys(word for word, _ in self.losses))
        if loss == PLAIN and abs(self.losses[0][1] - 1) > SAME:
            loss = f"{self.losses[0][1]:.3g} times the {PLAIN}"
        whole, last = 1.0, 0.0
        for each in steps:
            move, causes = each.move or {}, each.gradient
            if causes is None:
                found.setdefault("unknown", CAUSES["unknown"].format(each.rest))
            else:
                kinds = causes.keys() - {"gradient"}
                if not kinds and abs(causes.get("gradient", 0.0) - 1) > SAME:
                    kinds = {"scale"}
                for cause in kinds:
                    factor = causes.get(cause, causes.get("gradient"))
                    found.setdefault(cause, CAUSES[cause].format(factor, each.norm))
                if each.move is None:
                    found.setdefault("steps", f"the steps of {name} are no sums of gradients")
            parts = {"weights": whole, "pull": whole - 1, "before": last}
            last = sum(move.get(cause, 0.0) * value for cause, value in parts.items())
            whole += last
        if edited:
            found["unknown"] = "the weights that are sent are also changed outside of the optimiser's steps"
        if loss.endswith(PLAIN) and found.keys() & CAUSES.keys() - {"scale"}:
            loss += " and more"
        return loss, found, 0.0 if found.keys() & {"unknown", "unchecked", "steps"} else whole - 1


def _loss(one: Pass, targets: Tensor | None) -> tuple[str, float]:
    """Return the loss of a pass in words, and the factor in it of the mean cross-entropy, or 0."""
    place = next((p for p in sorted(one.slopes) if one.outputs[p].dim()), None)
    if place is None:
        return "computed by the network itself", 0.0
    scores, slope = one.outputs[place].float().requires_grad_(), {"": one.slopes[place].float()}
    slack = torch.finfo(one.outputs[place].dtype).eps * float(slope[""].norm())
    for target in (targets, *(target for _, target, _ in one.losses)):
        if target is not None and classes_in(target, scores):
            plain = {"": torch.autograd.grad(entropy(scores, target), scores)[0]}
            factors, _ = fit(slope, {"": plain}, slack)
            if factors:
                return PLAIN, factors[""]
    found: dict[str, Tensors] = {}
    for function, target, named in one.losses:
        words = function.__name__.replace("_", " ")
        for key in ARGUMENTS & named.keys():
            if isinstance(value := named[key], Tensor) or value:
                words += f" ({key.replace('_', ' ')}{'' if isinstance(value, Tensor) else f' {value}'})"
        for through in THROUGH:
            with suppress(RuntimeError, ValueError, IndexError, TypeError), catch_warnings():
                simplefilter("ignore")
                value = function(through(scores), target, **named)
                made = torch.autograd.grad(value.sum(), scores)[0]
                found.setdefault(words, {"": made})
                if fit(slope, {"": {"": made}}, slack)[0]:
                    return words, 0.0
    if len(found) > 1 and fit(slope, found, slack)[0]:
        return " and ".join(found), 0.0
    return "not one that was recorded" if one.losses else "not one of torch's own", 0.0


def _returned(returned: Any, state: Tensors) -> Tensors:
    """Return the weights that a function returns, as Flower's clients do, or else those of its network."""
    for each in (returned, *(returned[:1] if isinstance(returned, tuple | list) else ())):
        values = list(
            each.values() if isinstance(each, dict) else each if isinstance(each, tuple | list) else ()
        )
        with suppress(TypeError, RuntimeError, ValueError):
            arrays = [torch.as_tensor(value).detach().cpu() for value in values]
            if arrays and [v.shape for v in arrays] == [v.shape for v in state.values()]:
                named = dict(zip(state, arrays, strict=True))
                return {n: named[n].to(v.dtype) for n, v in state.items()}
    return state


def _targets(passes: list[Pass], first: Tensor) -> Tensor | None:
    """Return the targets of records, those of classes rather than others, or None if they were not seen."""
    found = []
    for one in passes:
        own = [t for _, t, _ in one.losses if t.dim() and len(t) == one.records()]
        own.sort(key=lambda each: each.is_floating_point() or each.dim() > 1)
        found += own[:1]
    if len(found) < len(passes) or len({t.shape[1:] for t in found}) > 1:
        return None
    return torch.cat(found)[first]


def _copied(values: Any) -> Any:
    return tree_map(lambda each: each.detach().clone() if isinstance(each, Tensor) else each, values)


def _add(slopes: dict[int, Tensor], place: int, slope: Tensor) -> None:
    slopes[place] = slopes[place] + slope.detach() if place in slopes else slope.detach().clone()


def watched(train: Callable[[], Any], targets: Tensor | None = None) -> tuple[Any, Watch]:
    """Call somebody's function once, and return its result and what was seen of its training."""
    # The first network that it calls is the client's, that network's inputs are the private records, and the
    # targets of the losses are their labels.
    watch = Watch(targets)
    handles = [
        register_module_forward_pre_hook(watch.before),
        register_module_forward_hook(watch.after, with_kwargs=True, always_call=True),
        register_optimizer_step_pre_hook(watch.step),
        register_optimizer_step_post_hook(watch.stepped),
    ]
    try:
        with watch:
            returned = train()
    finally:
        for handle in handles:
            handle.remove()
    return returned, watch


def _first(rows: Tensor) -> Tensor:
    seen: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        seen.setdefault(row.numpy().tobytes(), number)
    return torch.tensor(list(seen.values()))
