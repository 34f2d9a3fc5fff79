"""What would help: changes, each with what the attacks find after it, the best change first."""

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial

import torch
from scipy.special import ndtr, ndtri
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leakbench.attacks.matching.received import noise_images
from leakbench.audit.attacks import attack
from leakbench.audit.client import Client, view
from leakbench.audit.findings import NOTHING, READ, RECOGNISABLE, Attempt, combined, in_all, reached
from leakbench.audit.network import finite, one_line, reason
from leakbench.audit.predictions import short
from leakbench.audit.replay import Round
from leakbench.base.errors import Unfit, UserError
from leakbench.base.tensors import Tensors
from leakbench.networks.layers import first_dense

Change = Callable[[Tensors], Tensors]
# NOISE: standard deviations, as shares of the update's norm. KEPT: shares of the coordinates that are kept.
NOISE, KEPT = (0.01, 0.1, 1.0), (0.1, 0.01)
BATCHES, CLIENTS = (2, 4), (2, 5, 10)
# The number of equally likely records among which a certified bound lets the attacker choose.
CANDIDATES = 1000
GROUPS = 8
# SEARCH_SHARE: the share of a change's time that the search may take if exact attacks run too. SLACK: the
# share of that time in which the search of the unchanged round must end, because a changed round may take
# longer.
SEARCH_SHARE, SLACK = 0.5, 0.7


@dataclass
class Remedy:
    """A change, in words, and how many records the same attacks read and recognise before and after it."""

    what: str
    records: int
    before: int
    seen_before: int
    read: int = 0
    seen: int = 0
    # The share of accuracy that it costs in this round, if there are validation data.
    accuracy: float | None = None
    # What is certified and what did not finish; then more may be found. Why it was not measured.
    note: str = ""
    unfinished: bool = False
    why_not: str = ""

    @property
    def removed(self) -> int:
        return self.before - self.read

    @property
    def hidden(self) -> int:
        return self.seen_before - self.seen

    @property
    def verdict(self) -> str:
        # It helps if at most half as many records are recognisable. A smaller fall may be chance.
        if self.why_not:
            return "not known"
        if (self.removed, self.hidden) <= (0, 0):
            return "does not help"
        if self.unfinished:
            return "not known"
        return "would help" if 2 * self.seen <= self.seen_before else "helps in part"

    def line(self) -> str:
        if self.why_not:
            return f"{self.what}: not measured, {self.why_not}"
        least = "at least " if self.unfinished else ""
        line = f"{self.what}: {least}{self.read} {in_all(self.records)} read ({self.before} before)"
        if self.seen_before > self.before or self.seen > self.read:
            line += f", {least}{self.seen} read or recognisable ({self.seen_before} before)"
        if self.accuracy is not None:
            line += f", accuracy changes by {0.0 - 100 * self.accuracy:+.1f} points"
        return f"{line}; {self.note}" if self.note else line

    def rank(self) -> tuple[bool, bool, float, float]:
        """Return the key by which changes are sorted, the best first."""
        # Records that are no longer read come first, then those no longer recognisable, each for a point of
        # accuracy if that is known. Changes that were measured in part or not at all come last.
        points = max(100 * (self.accuracy or 0.0), 1.0)
        return bool(self.why_not), self.unfinished, -self.removed / points, -self.hidden / points


@dataclass(frozen=True)
class Again:
    """The attacks that run after each change, and what they reach in the unchanged round."""

    exacts: list[str]
    # The search that found more of a record than the exact attacks, empty if none did.
    search: str
    iterations: int
    levels: list[int]
    missing: str = ""  # why the search cannot run again, empty if it can


def remedies(
    own: Client, played: Round, found: list[Attempt], budget: float, defence: Change | None = None
) -> list[Remedy]:
    """Return what the same attacks find after each change of the client's training, the best change first."""
    # Exact attacks run again. A search runs again, beside noise, if it found more of a record than they. It
    # is as short as the budget requires, and is compared with one of the same length on the unchanged round.
    # If these attacks find nothing in the unchanged round, no change is measured.
    until = time.perf_counter() + budget
    plans = [*_of_updates(own, played, defence), *_of_clients(own)]
    again = _again(played, found, budget / (len(plans) + 1))
    before, seen_before = (reached(again.levels, level) for level in (READ, RECOGNISABLE))
    if not seen_before:
        missing = Remedy("every change", own.records, 0, 0, why_not=again.missing)
        return [missing] if again.missing else []
    out = []
    for number, (what, make, bound) in enumerate(plans):
        each = Remedy(what, own.records, before, seen_before, note=bound)
        # The time that one change leaves of its share goes to the next.
        share = (until - time.perf_counter()) / (len(plans) - number)
        try:
            if share <= 0:
                raise UserError("the budget was spent")
            after = make()
            _measure(each, after, again, share)
            if own.validation is not None:
                each.accuracy = _lost(played, after, own.validation)
        except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
            each.why_not = reason(problem)
        out.append(each)
    return sorted(out, key=Remedy.rank)


def _again(played: Round, found: list[Attempt], seconds: float) -> Again:
    """Return which attacks run after each change, within `seconds`, and what they find without a change."""
    exacts = [each for each in found if each.stage == "exact" and not each.why_not]
    names = [each.attack for each in exacts]
    levels = combined(exacts, "ABCD") or [NOTHING] * len(played.inputs)
    searches = [each for each in found if each.stage == "matching"]
    best = max(searches, key=lambda each: _gained(each.levels, levels), default=None)
    if best is None or not _gained(best.levels, levels):
        return Again(names, "", 0, levels)
    part = SLACK * seconds * (SEARCH_SHARE if names else 1.0)
    short = attack(best.attack, *view(played), part, longest=best.iterations, often=best.trials)
    missing = ""
    if short.why_not:
        missing = f"{best.title} did not run again: {short.why_not}"
    elif not _gained(short.levels, levels):
        missing = (
            f"{best.title} did not run again: {short.iterations} iterations, for which the budget has time, "
            "find nothing in the unchanged round either (--budget)"
        )
    own = levels if missing else combined([*exacts, short], "ABCD")
    return Again(names, best.attack, short.iterations, own, missing)


def _gained(levels: list[int], others: list[int]) -> int:
    return sum(level > other for level, other in zip(levels, others, strict=True))


def _measure(each: Remedy, after: Round, again: Again, seconds: float) -> None:
    """Run the attacks again on a changed round within `seconds`, and write what they find into `each`."""
    until = time.perf_counter() + seconds
    seen, found, notes = view(after), [], []
    if again.missing:
        notes.append(again.missing)
    elif again.search:
        part = seconds * (SEARCH_SHARE if again.exacts else 1.0)
        made = attack(again.search, *seen, part, longest=again.iterations)
        if made.why_not or made.iterations < again.iterations:
            notes.append(f"{made.title} did not finish")
        found.append(made)
    for name in again.exacts:
        made = attack(name, *seen, max(until - time.perf_counter(), 1e-3))
        if made.out_of_time:
            notes.append(f"{made.title} did not finish")
        found.append(made)
    each.unfinished = bool(notes)
    each.note = "; ".join(filter(None, [each.note, *notes]))
    # The client's own records come first.
    levels = combined(found, "ABCD")[: each.records]
    each.read, each.seen = reached(levels, READ), reached(levels, RECOGNISABLE)


Proposal = tuple[str, Callable[[], Round], str]


def _of_clients(own: Client) -> Iterator[Proposal]:
    """Yield changes of what the client trains: words, the function that plays the round, and no bound."""
    for times in BATCHES:
        yield f"batch × {times}", lambda n=times: _larger(own, n).play(), ""  # type: ignore[misc]
    for clients in CLIENTS:
        yield f"secure sum of {clients} clients", partial(_summed, own, clients), ""
    yield "no bias in the first layer", partial(_without_bias, own), ""
    yield "inputs normalised", lambda: _normalised(own).play(), ""
    if any(isinstance(m, _BatchNorm) for m in own.model.modules()):
        yield "group norm for batch norm", lambda: _with(own, grouped(own.model)).play(), ""


def _of_updates(own: Client, played: Round, defence: Change | None) -> Iterator[Proposal]:
    """Yield changes of what the client sends: words, the function that plays the round, and the bound."""
    # Noise of standard deviation z on an update whose norm is clipped to 1 is a Gaussian mechanism with mu =
    # 1/z. With any attack, an attacker who chooses one of K equally likely records is right with a
    # probability of at most Φ(Φ⁻¹(1/K) + mu) (Hayes, Mahloujifar and Balle, arXiv:2302.07225).
    norm = float(torch.stack([value.norm() for value in played.update.values()]).norm())
    for share in NOISE:
        found = ndtr(ndtri(1 / CANDIDATES) + 1 / share)
        bound = (
            f"certified, were updates clipped to this norm: the right one of {CANDIDATES} equally likely "
            f"records is picked with a probability of at most {found:.2g}"
            if found < 1 - 1e-3
            else "nothing is certified"
        )
        yield (
            f"noise of {share:g} of the update's norm",
            partial(_sent, played, partial(noisy, deviation=share * norm)),
            bound,
        )
    for share in KEPT:
        yield f"top {share:.0%} of coordinates", partial(_sent, played, partial(largest, share=share)), ""
    if defence is not None:
        yield "your defence", partial(_sent, played, defence), ""


def _larger(own: Client, times: int) -> Client:
    wanted = times * own.records
    if wanted > len(own.inputs):
        raise UserError(f"it takes a batch of {wanted} records and the client gave {len(own.inputs)}")
    return replace(own, records=wanted)


def _summed(own: Client, clients: int) -> Round:
    """Return the round with the mean update of several clients, which have the next records of the batch."""
    whole = _larger(own, clients).records
    parts = zip(own.inputs[:whole].split(own.records), own.targets[:whole].split(own.records), strict=True)
    rounds = [replace(own, inputs=inputs, targets=targets).play() for inputs, targets in parts]
    mean = {n: torch.stack([each.update[n] for each in rounds]).mean(0) for n in rounds[0].update}
    inputs, targets = (torch.cat([getattr(each, name) for each in rounds]) for name in ("inputs", "targets"))
    return replace(rounds[0], inputs=inputs, targets=targets, update=mean)


def _with(own: Client, model: nn.Module) -> Client:
    """Return the client with another network, if the loss does not read the parameters of its own."""
    if own.reads_network():
        raise UserError(
            "the loss reads the parameters of the network itself, and would not read the changed one's"
        )
    return replace(own, model=model)


def _without_bias(own: Client) -> Round:
    """Return the round of the network whose first dense layer has a bias of zero that is not trained."""
    # Attacks treat such a layer as one without a bias: nothing tells the scale of a record.
    observation, truth = view(own.play())
    try:
        name, _ = first_dense(observation.model(), noise_images(tuple(truth.images.shape[1:])))  # type: ignore[arg-type]
    except Unfit as problem:
        raise UserError("the network has no dense layer to take it from") from problem
    if f"{name}.bias" not in observation.updates:
        raise UserError("the first dense layer has none already, or does not train it")
    model = deepcopy(own.model)
    layer: nn.Linear = model.get_submodule(short(name))  # type: ignore[assignment]
    layer.bias.requires_grad_(False).zero_()
    return _with(own, model).play()


def _normalised(own: Client) -> Client:
    axes = [axis for axis in range(own.inputs.dim()) if axis != 1 or own.inputs.dim() == 3]
    mean = own.inputs.mean(axes, keepdim=True)
    deviation = own.inputs.std(axes, keepdim=True).clamp_min(1e-6)
    return replace(own, inputs=(own.inputs - mean) / deviation)


def grouped(model: nn.Module) -> nn.Module:
    model = deepcopy(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, _BatchNorm):
                channels = child.num_features
                groups = next(n for n in range(min(GROUPS, channels), 0, -1) if channels % n == 0)
                setattr(parent, name, nn.GroupNorm(groups, channels))
    return model


def noisy(update: Tensors, deviation: float) -> Tensors:
    rng = torch.Generator().manual_seed(0)
    return {n: v + deviation * torch.randn(v.shape, generator=rng) for n, v in update.items()}


def largest(update: Tensors, share: float) -> Tensors:
    """Return an update with zeros in all but the `share` of coordinates with the largest absolute values."""
    every = torch.cat([value.abs().flatten() for value in update.values()])
    bar = every.kthvalue(max(1, int((1 - share) * len(every)))).values
    return {name: torch.where(value.abs() > bar, value, 0) for name, value in update.items()}


def _sent(played: Round, change: Change) -> Round:
    try:
        changed = change({name: value.clone() for name, value in played.update.items()})
    except Exception as problem:
        raise UserError(f"it raised {one_line(problem)}") from problem
    shapes = {name: value.shape for name, value in played.update.items()}
    if not isinstance(changed, dict) or {n: getattr(v, "shape", None) for n, v in changed.items()} != shapes:
        raise UserError("the defence returns other tensors than it was given")
    return replace(played, update=finite(changed))


@torch.no_grad()
def _lost(plain: Round, after: Round, validation: tuple[Tensor, Tensor]) -> float | None:
    """Return the accuracy that a changed update costs, or None if the network itself was changed."""
    same, own = plain.model.state_dict(), after.model.state_dict()
    if not all(torch.equal(value, same.get(name, value * 0)) for name, value in own.items()):
        return None
    return _accuracy(plain, validation) - _accuracy(after, validation)


def _accuracy(played: Round, validation: tuple[Tensor, Tensor]) -> float:
    model = deepcopy(played.model).eval()
    for name, value in model.named_parameters():
        if name in played.update:
            value.add_(played.update[name], alpha=-played.lr if played.kind == "gradient" else 1.0)
    scores = model(validation[0].clone())
    wide = scores.dim() == 2 and scores.shape[1] > 1
    found = scores.argmax(1) if wide else (scores.flatten() > 0).long()
    return float((found == validation[1].flatten()).float().mean())
