"""What a client's training was, read from what was recorded of it."""

from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from leakbench.attacks.exact.adam import gradients
from leakbench.audit.child import is_rate
from leakbench.audit.network import SPLITS, as_records, computed, drops, finite, reads, rounded, uncompiled
from leakbench.audit.steps import SAME, Pass, dot, same, words
from leakbench.audit.watch import Watch, sent_back
from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors
from leakbench.observations.observation import LOSS

# What a server knows of a gradient that has more than the loss's own.
KNOWN = "weights", "signs", "constant"


@dataclass(frozen=True)
class Round:
    # As it was sent, in float32, in the mode in which it trains.
    model: nn.Module
    # [n, …], each private record once, and its targets, None if they were not seen.
    inputs: Tensor
    targets: Tensor | None
    # Parameter that is trained → new minus old weights if `kind` is `model`, else (`gradient`) the gradient.
    update: Tensors
    kind: str
    lr: float
    steps: int = 1  # how often each record was used
    batch_size: int | None = None  # None: all records in each step
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
    precision: str = ""  # in which precisions below float32 layers compute
    # The places of the outputs that the loss reads, empty if they are not known.
    heads: tuple[int, ...] = ()

    @cached_property
    def drops(self) -> bool:
        return drops(self.model, self.inputs)

    def least(self) -> bool:
        """Return whether attacks take this training for another one, so that more may be found."""
        # Attacks leave dropout out, and the masks of another round may close fewer neurons.
        open_ = self.differs.keys() & {"unknown", "unchecked", "steps", "outside", "computed"}
        steps = self.plain_steps or self.replayed == (1, 1)
        return not (self.plain_loss and steps) or bool(open_ or self.precision or self.drops)


def round_in(watch: Watch, returned: Any = None, gradient: bool = False) -> Round:
    """Return the round that was trained, and what its replay shows. Raises UserError if there is none."""
    # With `gradient`, the client sends the gradient of its only step.
    gradient |= watch.unstepped(returned)
    passes = [each for batch in watch.batches for each in batch]
    if watch.model is None or not watch.steps or not passes:
        raise UserError("neither returned (model, loss, batch) nor took a step of an optimiser")
    inputs = _inputs(watch, passes)
    # Each record counts once, at its first place.
    rows = [(row.numpy().tobytes(), place) for place, row in enumerate(inputs)]
    first = torch.tensor(sorted(dict(reversed(rows)).values()))
    records, size = len(first), sum(each.records() for each in watch.batches[0])
    network = uncompiled(watch.model)
    sent, own = ({n: p.detach() for n, p in m.named_parameters()} for m in (watch.sent, network))
    edited = watch.edited or not same(own, watch.last[2])
    how = "the weights that are sent are also changed outside of the optimiser's steps"
    if gradient:
        update = {n: v.float() for n, v in watch.last[0].items()}
    else:
        update = {n: (own[n] - sent[n]).float() for n in own if n in watch.trained}
    back = None if gradient else sent_back(returned, network.state_dict())
    if back is not None:
        moves, update = update, _sent(back, sent, update)
        if not same({n: sent[n] + v - moves[n] for n, v in update.items()}, sent):
            zero, own_zero = (sum(int((v == 0).sum()) for v in each.values()) for each in (update, moves))
            size, edited = sum(v.numel() for v in update.values()), True
            how += f" ({zero / size:.0%} of the changes are zero)" if zero > own_zero + size / 10 else ""
            how += f" ({low})" if (low := rounded(back)) else ""
    if not finite(update):
        raise UserError("no parameter of the model is trained (give the optimiser those of this model)")
    means = {n: fmean(watch.rates[n]) if len(set(watch.rates[n])) > 1 else watch.rates[n][0] for n in update}
    every = {rate for n in update for rate in watch.rates[n]}
    lr = max(means.values())
    if not is_rate(lr):
        raise UserError(f"the optimiser's rate is {lr:g}, not above 0")
    name = " and ".join(watch.optimisers)
    kept = {key: value for each in watch.optimisers.values() for key, value in each.items()}
    told = "".join(f", {key.replace('_', ' ')} {value:g}" for key, value in kept.items())
    at = f"rate {lr:g}" if len(every) == 1 else f"rates from {min(every):g} to {max(every):g}"
    loss, differs, decay, factor = _replayed(watch, how * edited, name)
    # Weights that decay tell nothing of the records, and a server knows the factor. It knows its own control
    # variates, the factor of the loss, and the rate of each parameter. Of one step, nothing but its gradient
    # is left.
    if gradient:
        step = watch.steps[0]
        shares = np.array([((step and step.gradient) or {}).get(cause, 0.0) for cause in KNOWN])
        decay = dict.fromkeys(step.decays[0] if step else (), shares)
    for n, value in update.items():
        for share, known in zip(decay.get(n, ()), (sent[n], sent[n].sign(), watch.rest.get(n)), strict=False):
            value = value - float(share) * known if share and known is not None else value
        scale = (1 / factor if factor else 1.0) if gradient else (lr / means[n] if means[n] else 1.0)
        update[n] = value if scale == 1 else value * scale
    once = len(watch.steps) == len(set(watch.scaled.values())) == 1 and "steps" not in differs
    if inverted := once and not gradient:
        differs["steps"] = f"one step of {name}, computed back to its gradient as far as rounding allows"
        (epsilon,) = set(watch.scaled.values())
        update |= gradients({n: update[n] for n in watch.scaled}, sent, lr, epsilon=epsilon)
    odd = differs.keys() - {"steps", "unchecked", "outside", "computed"}
    odd -= {"weights", "signs"} if len(watch.steps) == 1 else set()
    constant = all(len(set(watch.rates[n])) == 1 for n in update)
    return Round(
        watch.sent.float(), inputs[first], _targets(passes, first), update,
        "gradient" if gradient or inverted else "model", lr * (factor or 1.0),
        max(1, len(inputs) // records),
        None if size >= records else size, f"{name} at {at}{told}",
        plain_loss=bool(factor) and not odd, plain_steps=name == "SGD" and not kept and constant,
        loss=loss, differs=differs, replayed=(sum(map(bool, watch.steps)), len(watch.steps)),
        precision=" and ".join(sorted(watch.precisions)),
        heads=tuple(sorted(passes[0].direct)),
    )  # fmt: skip


def _inputs(watch: Watch, passes: list[Pass]) -> Tensor:
    """Return the inputs of all passes. Raises UserError for those that cannot be audited."""
    found, nested = [], False
    for args, kwargs in (each.inputs for each in passes):
        # A model of transformers takes its targets too, and a mask that may hide nothing.
        own = {key: v for key, v in kwargs.items() if key not in ("labels", "attention_mask")}
        hides = (mask := kwargs.get("attention_mask")) is not None and not bool(mask.all())
        found.append([v for v in tree_leaves((args, own, mask if hides else None)) if isinstance(v, Tensor)])
        nested |= not any(isinstance(v, Tensor) for v in (*args, *own.values()))
    if nested or any(len(each) > 1 for each in found):
        raise UserError(f"the model takes several inputs or a container of them, {SPLITS}")
    sizes = {tuple(each[0].shape[1:]) for each in found}
    if len(sizes) > 1:
        raise UserError(f"records have sizes from {min(sizes)} to {max(sizes)} (crop or pad them all to one)")
    inputs = as_records(torch.cat([each[0] for each in found]))
    if not inputs.is_floating_point():
        reads(watch.sent, inputs)
    return inputs


def _replayed(
    watch: Watch, edited: str, name: str
) -> tuple[str, dict[str, str], dict[str, np.ndarray], float]:
    """Return the loss in words, kind → what else the replay found, and two kinds of factors."""
    # Parameter → the factors of what is KNOWN in what is sent; and that of the mean cross-entropy.
    found, told = dict[str, str](), words("causes")
    if missing := watch.steps.count(None):
        found["unchecked"] = f"{missing} of {len(watch.steps)} steps were not computed again"
    sent, signs, constant = np.eye(len(KNOWN))
    whole = dict.fromkeys(watch.trained, sent)
    slope, last = dict.fromkeys(whole, 0 * sent), dict.fromkeys(whole, 0 * sent)
    factors = [factor for _, factor in watch.losses]
    for place, each in enumerate(watch.steps):
        if each is None:
            continue
        move, causes = each.move or {}, each.gradient
        if causes is None:
            found.setdefault("unknown", told["unknown"].format(each.rest))
        else:
            kinds, scale = causes.keys() - {"gradient"}, causes.get("gradient", 0.0)
            if not kinds and abs(scale - 1) > SAME:
                # What scales a loss may be taken out of its gradient again.
                scale *= factors[place] or 1.0
                kinds = {"scale"} if abs(scale - 1) > SAME else set()
                factors[place] = min(factors[place], 1.0)
            for cause in kinds:
                found.setdefault(cause, told[cause].format(causes.get(cause, scale), each.norm))
            if each.move is None:
                found.setdefault("steps", f"the steps of {name} are no sums of gradients")
        for n in each.rates:
            own = {"pull": whole[n] - sent, "before": slope[n], "earlier": slope[n], "constant": constant}
            own |= {"weights": whole[n] * (n in each.decays[0]), "signs": signs * (n in each.decays[0])}
            slope[n] = sum(((causes or {}).get(cause, 0.0) * value for cause, value in own.items()), 0 * sent)
            own["before"], own["gradient"] = last[n] / each.rates[n], slope[n]
            own["weights"] = whole[n] * (n in each.decays[1])
            last[n] = sum((each.rates[n] * move.get(cause, 0.0) * v for cause, v in own.items()), 0 * sent)
            whole[n] = whole[n] + last[n]
    if edited:
        found["unknown"] = edited
    found |= {kind: told[kind] for kind in ("moved", "random") if getattr(watch, kind)}
    if watch.outside:
        found["outside"] = f"{len(watch.outside)} tensors of other networks are trained, and not audited"
    if made := [n for n, m in watch.sent.named_modules() if computed(m)]:
        found["computed"] = f"weights of {', '.join(made[:3])} are computed from others (weight norm)"
    least, most = min(factors), max(factors)
    even = most - least <= SAME * abs(most)
    factor = most if even and most > 0 else 0.0
    loss = " and ".join(dict.fromkeys(word for word, _ in watch.losses))
    if loss == LOSS and abs(factor - 1) > SAME:
        loss = f"{most:.3g}{'' if even else f' (at least {least:.3g})'} times the {LOSS}"
    if loss.endswith(LOSS) and found.keys() & told.keys() - {"scale"}:
        loss += " and more"
    known = not found.keys() & {"unknown", "unchecked", "steps"}
    return loss, found, {n: value - sent for n, value in whole.items()} if known else {}, factor


def _sent(back: Tensors, sent: Tensors, moves: Tensors) -> Tensors:
    """Return the change of each trained tensor, of weights or of differences of weights that are sent."""
    both = {n: back[n].float() for n in moves if n in back}
    # What is nearest to the move is meant. Some send the weights before minus those after.
    ways = [{n: v - sent[n] for n, v in both.items()}, both, {n: -v for n, v in both.items()}]
    apart = [{n: v - moves[n] for n, v in each.items()} for each in ways]
    return min(zip(ways, apart, strict=True), key=lambda pair: dot(pair[1], pair[1]))[0]


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
