"""What a client's training function does, recorded while it runs; each step is computed again."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from leakbench.audit.network import failing, leaves, precisions_in, uncompiled
from leakbench.audit.steps import ROUNDING, SAME, Pass, Step, direct, dot, explained, fit, loss, same
from leakbench.base.tensors import Tensors

# The ends of the names of torch's losses.
LOSSES = ("_loss", "cross_entropy", "with_logits", "kl_div")
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
        # The client's network, and a copy of it as it was sent; until a step shows which network that is,
        # those that were called.
        self.model: nn.Module | None = None
        self.sent = nn.Module()
        self.copies: dict[nn.Module, nn.Module] = {}
        # Optimiser → its settings. Parameter → its rate in each step, and Adam's epsilon in Adam's first.
        self.optimisers = dict[str, dict[str, float]]()
        self.rates, self.scaled = dict[str, list[float]](), dict[str, float]()
        # The parameters of other networks that are trained.
        self.outside, self.trained, self.precisions = set[int](), set[str](), set[str]()
        self.passes, self.batches = list[Pass](), list[list[Pass]]()
        # Of each step: the loss in words with the factor of entropy; what it consists of, if that is known.
        self.losses, self.steps = list[tuple[str, float]](), list[Step | None]()
        # Of the step that is being taken: gradients; weights, and gradients computed again. Of the newest
        # passes, those of parameters that no optimiser has moved yet.
        self.given: Tensors = {}
        self.still: tuple[Tensors, Tensors] = {}, {}
        self.now: tuple[Tensors, Tensors] | None = None
        # The weights at the newest pass or step, and whether passes of a step were at other weights than it,
        # and whether they come out otherwise each time.
        self.seen: Tensors = {}
        self.edited = self.moved = self.random = False
        # What was in the gradient of a step beside its passes, if it could not be told.
        self.rest: Tensors = {}
        # Of the step before: gradients, moves of the weights, and the weights after it.
        self.last: tuple[Tensors, Tensors, Tensors] = {}, {}, {}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if self.passes and not self.busy and name.endswith(LOSSES):
            named = dict(zip(("input", "target", "weight"), args, strict=False)) | kwargs
            named.pop("input", None)
            if isinstance(target := named.pop("target", None), Tensor) and torch.is_grad_enabled():
                self.passes[-1].losses.append((function, target.detach().clone(), named))
        return function(*args, **kwargs)

    def before(self, module: nn.Module, inputs: Any) -> None:
        """Note the batch that the outermost network reads."""
        if torch.compiler.is_compiling():
            return
        self.depth += not self.busy
        trains = torch.is_grad_enabled() and next(module.parameters(), None) is not None
        if self.busy or self.depth > 1 or not trains:
            return
        if self.model is None and module not in self.copies:
            # An older weight norm keeps a tensor that it computes anew in each pass.
            for layer in module.modules():
                own = [name for name, v in vars(layer).items() if isinstance(v, Tensor) and not v.is_leaf]
                layer.__dict__ |= {name: getattr(layer, name).detach() for name in own}
            with failing("the model cannot be copied"), self._alone():
                self.copies[module] = _unhooked(deepcopy(uncompiled(module)))
        if self.model in (None, module):
            modes = [layer.training for layer in uncompiled(module).modules()]
            cast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            sent = self.sent if self.model else self.copies[module]
            known = self.seen if self.model else dict(sent.named_parameters())
            self.seen = _weights(dict(uncompiled(module).named_parameters()), known)
            state = self.seen | _copied(dict(uncompiled(module).named_buffers()))
            chance = torch.get_rng_state()
            self.passes.append(Pass(module, _copied((inputs, {})), chance, modes, cast, state))

    def after(self, module: nn.Module, inputs: Any, *rest: Any) -> None:
        """Note what the network returned, and the slope of the loss there as soon as it is known."""
        if torch.compiler.is_compiling():
            return
        self.depth -= not self.busy
        # After a failure there is nothing but a None.
        seen = self.model in (None, module) and len(rest) == 2 and torch.is_grad_enabled()
        if self.busy or self.depth or not seen or not self.passes or self.passes[-1].of is not module:
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
        kept = self.optimisers.setdefault(type(optimiser).__name__, {})
        self.scaled, adam = {}, type(optimiser) in (torch.optim.Adam, torch.optim.AdamW)
        for group in optimiser.param_groups:
            kept |= {key: group[key] for key in ("momentum", "weight_decay") if group.get(key)}
            # Decay that is in Adam's gradient would be scaled with it.
            plain = adam and not group["maximize"]
            plain = plain and (group["decoupled_weight_decay"] or not group["weight_decay"])
            for name in [n for n, p in own.items() if any(p is each for each in group["params"])]:
                self.rates.setdefault(name, []).append(float(group.get("lr", 1.0)))
                if plain and own[name].grad is not None and not optimiser.state.get(own[name]):
                    self.scaled[name] = group["eps"]
        self.trained |= {n for n, p in own.items() if p.grad is not None}
        weights = _weights(own, self.seen)
        self.seen = self.seen | weights
        self.edited |= not same(weights, self.last[2])
        passes, self.passes = [each for each in self.passes if each.slopes], []
        self.given = {n: p.grad.detach().to_dense().float() for n, p in own.items() if p.grad is not None}
        # A second optimiser may step on the same passes.
        again = not passes and bool(self.given) and self.given.keys() <= self.still[0].keys()
        self.batches.append(passes)
        self.losses.append(self.losses[-1] if again else ("not seen", 0.0))
        with self._alone(), suppress(RuntimeError):
            self.still = ({}, {}) if passes else self.still
            if passes and self.given and weights and self.spent <= SECONDS:
                self.given = {n: slope.clone() for n, slope in self.given.items()}
                named = uncompiled(self.model or self.sent).named_parameters()
                every = _weights({n: p for n, p in named if p.grad is not None}, weights)
                self.batches[-1], made = self._given(passes, every)
                self.still, again = (every, made), bool(every)
            if again:
                weights, made = ({n: each.pop(n) for n in self.given} for each in self.still)
                self.now = weights, made
        with self._alone(), suppress(RuntimeError):
            self.losses[-1] = self._losses(self.batches[-1]) if passes else self.losses[-1]

    def stepped(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        """Find out what the step that was taken consists of."""
        own = self._own(optimiser)
        if not own:
            return
        # A step with a closure of its own, such as that of LBFGS, makes passes while it is taken.
        early = len(self.steps) == len(self.batches)
        if early:
            self.step(optimiser)
        self.batches[-1] += [each for each in self.passes if each.slopes]
        closed, self.passes, given = early or bool(self.passes), [], self.given
        for each in self.batches[-1]:
            each.outputs.clear()
        after = _weights(own)
        self.seen = self.seen | after
        if self.now is None or closed:
            self.steps.append(None)
            self.last = given, {}, self.last[2] | after
            return
        weights, made = self.now
        with self._alone(), torch.no_grad():
            self.moved |= not all(same(weights, one.state) for one in self.batches[-1])
            sent = dict(self.sent.named_parameters())
            # Groups of parameters may have rates of their own.
            rates = {n: self.rates[n][-1] for n in weights}
            most = max(rates.values()) or 1.0
            rates = {n: rate / most or 1.0 for n, rate in rates.items()}
            moved = {n: (after[n] - v) / rates[n] for n, v in weights.items()}
            away = {n: v - sent[n] for n, v in weights.items()}
            slack = ROUNDING * dot(weights, weights) ** 0.5 / min(rates.values())
            alike = given.keys() == self.last[0].keys()
            grown, moves = (self.last[0] if alike else {}), self.last[1]
            moves = {n: moves[n] / rates[n] for n in given} if moves and alike else {}
            along = {n: v / (v.abs() + self.scaled[n]) if n in self.scaled else v for n, v in given.items()}
            causes = {"weights": weights, "pull": away}
            gradient, rest, fading = explained(given, made, causes)
            if grown and (gradient is None or gradient.get("pull", 0.0) < 0):
                fresh, left, some = explained({n: v - grown[n] for n, v in given.items()}, made, causes)
                if fresh:
                    gradient, rest, fading = fresh | {"before": 1.0}, left, some
            if gradient is None:
                gradient, fading = self._further(given, made, weights)
            if gradient is None:
                self.rest = {n: v - made[n] for n, v in given.items()}
            causes |= {"before": moves, "earlier": grown}
            move, _left, moving = explained(moved, along, causes, slack)
            norm = dot(given, given) ** 0.5
            self.steps.append(Step(gradient, move, rest, norm, (fading, moving), rates))
        self.last = given, {n: after[n] - v for n, v in weights.items()}, self.last[2] | after

    def _own(self, optimiser: torch.optim.Optimizer) -> dict[str, nn.Parameter]:
        stepped = {id(p) for each in optimiser.param_groups for p in each["params"]}
        if self.model is None:
            # The first network that it trains is the client's. Others were called too, such as a teacher.
            trains = (m for m in self.copies if any(id(p) in stepped for p in m.parameters()))
            self.model = next(trains, None)
            if self.model is not None:
                self.sent, self.copies = self.copies[self.model], {}
                self.passes = [each for each in self.passes if each.of is self.model]
        if self.model is None or self.busy:
            return {}
        named = dict(uncompiled(self.model).named_parameters())
        self.outside |= stepped - {id(p) for p in named.values()}
        return {n: p for n, p in named.items() if id(p) in stepped and p.requires_grad}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Record nothing in the block but its time, and leave the client's chance as it was."""
        self.busy, begun = True, time.thread_time()
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                yield
        finally:
            self.busy = False
            self.spent += time.thread_time() - begun

    def _again(self, passes: list[Pass], weights: Tensors) -> Tensors:
        assert self.model is not None
        model = deepcopy(self.sent)
        model.zero_grad()
        for name, p in model.named_parameters():
            p.requires_grad_(name in weights)
        for one in passes:
            for layer, training in zip(model.modules(), one.training, strict=True):
                layer.training = training
            torch.set_rng_state(one.chance)
            model.load_state_dict(one.state, strict=False)
            args, kwargs = _copied(one.inputs)
            cast, dtype = one.autocast
            with precisions_in(model, self.precisions), torch.autocast("cpu", dtype, cast):
                outputs = leaves(model(*args, **kwargs))
            # A network may return its own loss beside the scores, which are on the way to it.
            one.direct = direct(outputs, {place: v for place, v in one.slopes.items() if v.dim()})
            every = direct(outputs, one.slopes)
            torch.autograd.backward([outputs[place] for place in every], [*every.values()])
        made = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
        return {n: made[n].to_dense() if n in made else torch.zeros_like(v) for n, v in weights.items()}

    def _given(self, passes: list[Pass], weights: Tensors) -> tuple[list[Pass], Tensors]:
        """Return the passes of which a gradient is, and that gradient computed again."""

        # Another optimiser may have some of the parameters.
        def fits(found: Tensors) -> bool:
            return fit(self.given, {"": {n: found[n] for n in self.given}}, 0.0)[0] is not None

        made = self._again(passes, weights)
        if not fits(made):
            twice = self._again(passes, weights)
            self.random |= fit(twice, {"": made}, 0.0)[0] is None and any(
                bool(v.any()) for v in twice.values()
            )
            # What the first passes gave may have been thrown away.
            late = {n: torch.zeros_like(v) for n, v in made.items()}
            for place in reversed(range(1, len(passes))):
                for n, v in self._again(passes[place : place + 1], weights).items():
                    late[n] += v
                if fits(late):
                    return passes[place:], late
        return passes, made

    def _further(
        self, given: Tensors, made: Tensors, weights: Tensors
    ) -> tuple[dict[str, float] | None, set[str]]:
        """Return rarer causes of a gradient, each tried alone, or None; and the tensors that have them."""
        most = max(float(v.abs().max()) for v in given.values())
        if fit(given, {"": {n: v.clamp(-most, most) for n, v in made.items()}}, 0.0)[0]:
            return {"gradient": 1.0, "clipped": most}, set(made)
        found, _, some = explained(given, made, {"signs": {n: v.sign() for n, v in weights.items()}})
        if found is None and self.rest.keys() == given.keys():
            found, _ = fit(given, {"gradient": made, "constant": self.rest}, 0.0)
            for step in self.steps if found else ():
                # The step before had it too.
                if step is not None and step.gradient is None:
                    step.gradient = {"gradient": 1.0, "constant": 1.0}
        return found, some

    def _losses(self, passes: list[Pass]) -> tuple[str, float]:
        whole = sum(each.records() for each in passes)
        found = [loss(one, self.targets) for one in passes]
        shares = [share * whole / one.records() for (_, share), one in zip(found, passes, strict=True)]
        words = " and ".join(sorted({word for word, _ in found}))
        if max(shares) - min(shares) <= SAME * max(map(abs, shares)):
            return words, shares[0]
        return f"{words}, in shares of {min(shares):.3g} to {max(shares):.3g}", 0.0

    def trains(self) -> bool:
        """Return whether a step of an optimiser was seen, or at least a backward pass."""
        return bool(self.steps) or any(each.slopes for each in self.passes)

    def unstepped(self, returned: Any) -> bool:
        """Take a gradient (FedSGD) or a step by hand for a step; return whether a gradient is sent."""
        called = next((each.of for each in self.passes if each.slopes), None)
        if called is None or self.steps:
            return False
        own, sent = (dict(uncompiled(m).named_parameters()) for m in (called, self.copies[called]))
        after = {n: p.detach().clone() for n, p in own.items()}
        moved = any(not torch.equal(sent[n], v) for n, v in after.items())
        back = sent_back(returned, after)
        optimiser = torch.optim.SGD(own.values(), lr=1.0)
        with torch.no_grad():
            for name, p in own.items():
                p.copy_(sent[name])
                if back is not None and not moved:
                    p.grad = back[name].detach().to(p) if name in back else None
        if all(p.grad is None for p in own.values()):
            self._own(optimiser)
            with self._alone():
                made = self._again([each for each in self.passes if each.slopes], _weights(own))
            for name, slope in made.items():
                own[name].grad = slope
        self.step(optimiser)
        with torch.no_grad():
            for name, p in own.items():
                p.copy_(after[name] if moved else p - p.grad if p.grad is not None else p)
        self.stepped(optimiser)
        if moved and self.steps[-1] is not None:
            # The rate is that of the step by hand, if it was one.
            rate = -(self.steps[-1].move or {}).get("gradient", -1.0)
            self.rates = {n: [rate] for n in self.rates}
        return not moved


def sent_back(returned: Any, state: Tensors) -> Tensors | None:
    """Return the tensors that a function returns, as Flower's clients do, or None if it returns others."""
    for each in (returned, *(returned[:1] if isinstance(returned, tuple | list) else ())):
        values = each.values() if isinstance(each, dict) else each
        values = values if isinstance(values, Iterable) else ()
        with suppress(TypeError, RuntimeError, ValueError):
            arrays = [torch.as_tensor(value).detach().cpu() for value in values]
            if arrays and [v.shape for v in arrays] == [v.shape for v in state.values()]:
                return dict(zip(state, arrays, strict=True))
            # A part of the network may stay with the client, such as its head or its norms.
            same = {n: v for n, v in state.items() if any(map(partial(torch.equal, v), arrays))}
            if arrays and len(same) == len(arrays):
                return same
    return None


def _copied(values: Any) -> Any:
    return tree_map(lambda each: each.detach().clone() if isinstance(each, Tensor) else each, values)


def _weights(own: Mapping[str, Tensor], known: Mapping[str, Tensor] = MappingProxyType({})) -> Tensors:
    """Return copies of the weights, or none of a network that is too large to be computed again."""
    # Those that are as in `known` are shared with it.
    if sum(p.numel() for p in own.values()) > LARGEST:
        return {}
    kept = {n: v.detach() for n, v in known.items() if n in own and torch.equal(own[n], v)}
    return {n: kept[n] if n in kept else p.detach().clone() for n, p in own.items()}


def _unhooked(network: nn.Module) -> nn.Module:
    """Return a copied network without Opacus' hooks, which count passes on parameters that a copy has not."""
    for layer in network.modules():
        for hooks in (layer._forward_hooks, layer._backward_hooks):
            own = {key: getattr(hook, "func", hook) for key, hook in hooks.items()}
            for key in [key for key, hook in own.items() if f"{hook.__module__}".startswith("opacus.")]:
                del hooks[key]
    return network


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
