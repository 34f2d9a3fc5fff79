"""What a client's training function did: recorded while it runs, and each step computed again."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from leakbench.audit.child import is_rate
from leakbench.audit.network import failing, finite, leaves, precisions_in, reads, uncompiled
from leakbench.audit.steps import CAUSES, ROUNDING, SAME, Pass, Step, decays, dot, fit, loss
from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors
from leakbench.observations.observation import LOSS


@dataclass(frozen=True)
class Round:
    """What a client does in one round."""

    # As it was sent, in float32, in the mode in which it trains.
    model: nn.Module
    # [n, …], each private record once, and its targets, None if they were not seen.
    inputs: Tensor
    targets: Tensor | None
    # Parameter that is trained → new minus old weights if `kind` is `model`, else (`gradient`) the gradient.
    update: Tensors
    kind: str
    lr: float
    # How often each record was used.
    steps: int = 1
    # None: all records in each step.
    batch_size: int | None = None
    # Its name and its settings.
    optimiser: str = "SGD"
    # Whether the update is one of the mean cross-entropy of what the model returns, and whether the optimiser
    # is SGD without momentum and weight decay.
    plain_loss: bool = True
    plain_steps: bool = True
    loss: str = LOSS
    # Kind → what the replay found beside plain training, in words. How many steps it computed, of how many.
    differs: dict[str, str] = field(default_factory=dict)
    replayed: tuple[int, int] = (0, 0)
    # In which precisions below float32 layers compute.
    precision: str = ""

    def least(self) -> bool:
        """Return whether attacks take this training for another one, so that more may be found."""
        steps = self.plain_steps or (self.replayed == (1, 1) and "steps" not in self.differs)
        return (
            not (self.plain_loss and steps)
            or bool(self.differs.keys() & {"unknown", "unchecked"})
            or bool(self.precision)
        )


# SECONDS: after this time no further step is computed again. LARGEST: the number of parameters above which no
# step is, because six copies of the network would not fit into memory.
SECONDS, LARGEST = 30.0, 30_000_000


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
        seen = module is self.model and len(rest) == 2 and torch.is_grad_enabled()
        if self.busy or self.depth or not seen:
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
        weights = _weights(own)
        self.edited |= any(not torch.equal(weights[n], v) for n, v in self.last[2].items() if n in weights)
        passes, self.passes = [each for each in self.passes if each.slopes], []
        self.batches.append(passes)
        self.given = {n: p.grad.detach().to_dense().float() for n, p in own.items() if p.grad is not None}
        self.losses.append(("not seen", 0.0))
        with self._alone(), suppress(RuntimeError):
            if passes:
                self.losses[-1] = self._losses(passes)
            if passes and self.given and weights and self.spent <= SECONDS:
                self.given = {n: slope.clone() for n, slope in self.given.items()}
                weights = {n: weights[n] for n in self.given}
                self.now = weights, self._again(passes, weights)

    def stepped(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        """Find out what the step that was taken consists of."""
        own = self._own(optimiser)
        if not own:
            return
        # A step with a closure of its own, such as that of LBFGS, makes passes while it is taken.
        self.batches[-1] += [each for each in self.passes if each.slopes]
        closed, self.passes, given = bool(self.passes), [], self.given
        for each in self.batches[-1]:
            each.outputs.clear()
        after = _weights(own)
        if self.now is None or closed:
            self.steps.append(None)
            self.last = given, {}, after
            return
        weights, made = self.now
        with self._alone(), torch.no_grad():
            sent = dict(self.sent.named_parameters())
            moved = {n: after[n] - v for n, v in weights.items()}
            away = {n: v - sent[n] for n, v in weights.items()}
            slack = ROUNDING * dot(weights, weights) ** 0.5
            grown, moves = self.last[:2] if given.keys() == self.last[0].keys() else ({}, {})
            # Weights decay all together, or those of some tensors do.
            some = {n for n in made for v in (given, moved) if decays(v[n], made[n], weights[n])}
            for self.decays in (set(made), some):
                decaying = {n: v * (n in self.decays) for n, v in weights.items()}
                causes = {"gradient": made, "weights": decaying, "pull": away}
                gradient, rest = fit(given, causes, 0.0)
                if grown and (gradient is None or gradient.get("pull", 0.0) < 0):
                    fresh, left = fit({n: v - grown[n] for n, v in given.items()}, causes, 0.0)
                    gradient, rest = (fresh | {"before": 1.0}, left) if fresh else (gradient, rest)
                move, _left = fit(moved, causes | {"before": moves, "earlier": grown}, slack)
                if move is not None and gradient is not None:
                    break
            self.steps.append(Step(gradient, move, rest, dot(given, given) ** 0.5))
        self.last = given, moved, after

    def _own(self, optimiser: torch.optim.Optimizer) -> dict[str, nn.Parameter]:
        if self.model is None or self.busy:
            return {}
        stepped = {id(p) for each in optimiser.param_groups for p in each["params"]}
        named = uncompiled(self.model).named_parameters()
        return {n: p for n, p in named if id(p) in stepped and p.requires_grad}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Record nothing in the block but its time, and leave the client's chance as it was."""
        self.busy, begun = True, time.perf_counter()
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                yield
        finally:
            self.busy = False
            self.spent += time.perf_counter() - begun

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
        found = [loss(one, self.targets) for one in passes]
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
        if inputs.is_floating_point():
            inputs = inputs.float()
        elif inputs.dtype != torch.bool and not inputs.is_complex() and inputs.dim() == 2:
            inputs = inputs.long()
            reads(self.sent, inputs)
        if not 2 <= inputs.dim() <= 4 or inputs.dtype not in (torch.float32, torch.int64):
            shape = tuple(inputs.shape)
            raise UserError(
                f"inputs {shape} of {inputs.dtype} are no batch of real numbers, images or tokens"
            )
        # Each record counts once, at its first place.
        rows = [(row.numpy().tobytes(), place) for place, row in enumerate(inputs)]
        first = torch.tensor(sorted(dict(reversed(rows)).values()))
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
        if decay:
            update |= {n: update[n] - decay * sent[n].detach() for n in self.decays & update.keys()}
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
        if loss == LOSS and abs(self.losses[0][1] - 1) > SAME:
            loss = f"{self.losses[0][1]:.3g} times the {LOSS}"
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
        if loss.endswith(LOSS) and found.keys() & CAUSES.keys() - {"scale"}:
            loss += " and more"
        return loss, found, 0.0 if found.keys() & {"unknown", "unchecked", "steps"} else whole - 1


def _returned(returned: Any, state: Tensors) -> Tensors:
    """Return the weights that a function returns, as Flower's clients do, or else those of its network."""
    for each in (returned, *(returned[:1] if isinstance(returned, tuple | list) else ())):
        values = each.values() if isinstance(each, dict) else each
        values = values if isinstance(values, Iterable) else ()
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


def _weights(own: dict[str, nn.Parameter]) -> Tensors:
    """Return copies of the weights, or none of a network that is too large to be computed again."""
    large = sum(p.numel() for p in own.values()) > LARGEST
    return {} if large else {n: p.detach().clone() for n, p in own.items()}


def _add(slopes: dict[int, Tensor], place: int, slope: Tensor) -> None:
    slopes[place] = slopes[place] + slope.detach() if place in slopes else slope.detach().clone()


def watched(train: Callable[[], Any], targets: Tensor | None = None) -> tuple[Any, Watch]:
    """Call somebody's function once, and return its result and what was seen of its training."""
    # The first network that it calls is the client's, that network's inputs are the private records, and the
    # targets of the losses are their labels.
    watch = Watch(targets)
    with (
        watch,
        register_module_forward_pre_hook(watch.before),
        register_module_forward_hook(watch.after, with_kwargs=True, always_call=True),
        register_optimizer_step_pre_hook(watch.step),
        register_optimizer_step_post_hook(watch.stepped),
    ):
        return train(), watch
