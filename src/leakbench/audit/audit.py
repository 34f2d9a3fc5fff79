"""The audit of a client's code or of recorded updates, stage by stage."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.audit.attacks import FEWEST, LONGEST, attack, catalogue, easy
from leakbench.audit.child import Json, Tell, bounded, loaded, say, seconds_of
from leakbench.audit.client import Client, Loss, Truth, client, facts, view
from leakbench.audit.detectors import Watched, alarms
from leakbench.audit.findings import LEVELS, Attempt, affected, in_all, merged, pictures
from leakbench.audit.handed import hand_over, taken
from leakbench.audit.inference import Inference, inferences, of_tokens
from leakbench.audit.network import reads, untrained
from leakbench.audit.predictions import look, unmoved
from leakbench.audit.recorded import Options, one, recorded
from leakbench.audit.remedies import Change, remedies
from leakbench.audit.replay import Round, round_in
from leakbench.audit.report import Audit
from leakbench.audit.steps import words
from leakbench.audit.watch import watched
from leakbench.base.errors import UserError
from leakbench.observations.observation import Observation

# Hears of an audit that is under way.
Keep = Callable[[Audit], None]
# Shares of the budget of one exact attack and of what would help, and of the rest that of a longer search.
EXACT_SHARE, HELP_SHARE, LONGER_SHARE = 0.25, 0.3, 0.7
# A search runs again only if there is time for this many times its seconds.
LONGER = 1.5
# Copies of the weights that a search holds at a time.
COPIES = 10


def of_client(
    own: Client, budget: float, tell: Tell = say, *, show: bool = False, defence: Change | None = None,
    keep: Keep = lambda _: None,
) -> Audit:  # fmt: skip
    """Audit a client's round, and measure what would help."""
    # `tell` hears each line as soon as it is known. `defence` changes an update as the user's own would.
    begun = time.perf_counter()
    played = own.play()
    audit = of_round(played, budget, tell, show=show, others=own.inputs[own.records :], keep=keep)
    left = budget - (time.perf_counter() - begun)
    if own.inputs.is_floating_point():
        short = audit.found and all(each.iterations < FEWEST for each in audit.found)
        if short and own.records > 1 and not audit.recognisable():
            # A search has no time for this batch. Of a smaller one it shows more, if memory has room for it.
            with suppress(UserError):
                tried = attack("invg", *view(replace(own, records=1).play()), left)
                _beside(audit, tell, "one record alone", tried, tried.line().removeprefix("InvG: "))
        audit.remedies = remedies(own, played, audit.found, left, defence)
    for each in audit.remedies:
        tell(f"{each.verdict}: {each.line()}")
    audit.seconds = round(time.perf_counter() - begun, 2)
    return audit


def of_round(
    played: Round, budget: float, tell: Tell, *, show: bool = False, others: Tensor | None = None,
    keep: Keep = lambda _: None,
) -> Audit:  # fmt: skip
    """Audit a round that was played already. Members are compared with `others`, inputs of other clients."""
    begun, records = time.perf_counter(), len(played.inputs)
    if not played.inputs.is_floating_point():
        embedding = reads(played.model, played.inputs)
        layer: nn.Embedding = played.model.get_submodule(embedding)  # type: ignore[assignment]
        audit = Audit(records, facts(played, None, layer.num_embeddings), budget=budget, least=played.least())
        audit.assumptions = assumptions(played, None)
        found, audit.besides = of_tokens(played, embedding, budget, others)
        audit.found = [found]
        for each in audit.besides:
            tell(f"besides: {each.title}: {each.line}")
    else:
        observation, truth = view(played, others)
        audit = Audit(records, facts(played, observation), budget=budget)
        audit.assumptions = assumptions(played, observation)
        _attacked(audit, [(observation, truth)], budget * (1 - HELP_SHARE), tell, keep)
        off = audit.look.facts.get("second derivatives")
        told = max([0, *audit.look.predicted.values()])
        audit.least = played.least() or off is not None or told > audit.exposed()
        if not audit.recognisable():
            # No change can be measured without a leak, so the searches get the share of what would help.
            _longer(audit, observation, truth, budget - (time.perf_counter() - begun), tell)
        audit.assumptions += [f"Second derivatives: {off}."] if off else []
        if told > (read := audit.exposed()):
            audit.assumptions.append(f"Closed forms tell that {told} records can be read, and {read} were: "
                                     "what is sent is rounded, or the budget was too short.")  # fmt: skip
        audit.affected = affected(audit.found, truth, audit.look.alone)
        audit.pictures = pictures(audit.found, truth) if show else []
    audit.seconds = round(time.perf_counter() - begun, 2)
    keep(audit)
    tell(audit.headline())
    return audit


def _attacked(
    audit: Audit, parts: Sequence[Watched], budget: float, tell: Tell, keep: Keep, clients: int = 1,
    repeats: bool = False,
) -> None:  # fmt: skip
    """Run the stages of an audit on the updates of clients, and write what they find into `audit`."""
    # `parts` has what each client sent in each round, rounds first, with its records or None if they are
    # unknown. `repeats` says whether each client holds the same records in every round.
    begun = time.perf_counter()
    audit.look = look(*parts[0])
    for question, answer in audit.look.facts.items():
        tell(f"look: {question}: {answer}")
    for name, number in audit.look.predicted.items():
        tell(f"look: {name} will read {number} {in_all(audit.records)} (predicted)")
    keep(audit)
    for observation, truth in parts:
        for each in inferences(observation, truth, budget) if truth is not None else ():
            audit.besides.append(each)
            tell(f"besides: {each.title}: {each.line}")
    keep(audit)
    audit.alarms = alarms(parts, budget, clients)
    for alarm in audit.alarms:
        tell(f"detector: {alarm.detector.replace('_', ' ')}: {alarm.line()}")
    keep(audit)
    searches = sum(each.stage == "matching" for each in catalogue().values())
    for name, about in catalogue().items():
        if about.stage == "exact":
            share = EXACT_SHARE
        else:
            if audit.exposed() == audit.records:
                continue
            # One search of sufficient length says more than two short ones.
            share, searches = 1 / searches, searches - 1
        found = []
        for number, part in enumerate(parts):
            left = (budget - (time.perf_counter() - begun)) / (len(parts) - number)
            found.append(attack(name, *part, left * share, left))
        whole = merged(found, clients if repeats else 0)
        audit.found.append(whole if parts[0][1] is not None else replace(whole, images=None))
        tell(f"{about.stage}: {audit.found[-1].line()}")
        keep(audit)


def _longer(audit: Audit, observation: Observation, truth: Truth, limit: float, tell: Tell) -> None:
    """Run the nearest search for longer, and then where the answer is known, which tells how strong it is."""
    begun, searches = time.perf_counter(), [each for each in audit.found if each.trials]
    if not searches:
        return
    best = max(searches, key=lambda each: sum(each.quality))
    if best.iterations < LONGEST and LONGER * best.seconds <= LONGER_SHARE * limit:
        again = attack(best.attack, observation, truth, LONGER_SHARE * limit)
        if again.trials and again.iterations > best.iterations:
            audit.found[audit.found.index(best)] = best = again
            tell(f"matching, with the rest of the budget: {again.line()}")
    if not audit.recognisable():
        left = min(best.seconds, (limit - (time.perf_counter() - begun)) / 2)
        same = attack(best.attack, *easy(truth), left, longest=best.iterations, often=best.trials)
        line = (
            f"{same.title} of one record in a LeNet with sigmoids, which leaks: {LEVELS[max(same.levels)]} "
            f"(r = {max([0.0, *same.quality]):.2f}), {same.line().rpartition(' s, ')[2]}"
        )
        _beside(audit, tell, "the same search where the answer is known", same, same.why_not or line)


def _beside(audit: Audit, tell: Tell, title: str, found: Attempt, line: str) -> None:
    audit.besides.append(Inference(title, "", found.source, line, found.trials > 0, found.seconds))
    tell(f"besides: {title}: {line}")


def assumptions(played: Round, observation: Observation | None) -> list[str]:
    """Return what the audit takes for granted, one sentence each; of tokens, without an observation."""
    done, steps = played.replayed
    said = {
        "differs": "; ".join(played.differs.values()), "frozen": untrained(played.model, played.update),
        "still": "" if observation is None else unmoved(observation), "precision": played.precision,
    }  # fmt: skip
    holds = said | {
        "same": not played.differs, "steps": not played.plain_steps, "loss": not played.plain_loss,
        "dropout": played.drops, "gradient": played.kind == "gradient",
    }  # fmt: skip
    said |= {"done": f"{done}", "of": f"{steps}", "optimiser": played.optimiser, "loss": played.loss}
    texts = words("tokens" if observation is None else "records")
    return [text.format(**said) for key, text in texts.items() if holds.get(key, True)]


def audit(
    model: nn.Module, loss: Loss, batch: tuple[torch.Tensor, torch.Tensor], local_steps: int = 5,
    budget: str | float = "2m", *, lr: float = 0.01, show: bool = False, tell: Tell = say,
) -> Audit:  # fmt: skip
    """Audit what one client's update of `model` gives away; the result shows its report in a notebook.

    model: any torch module that maps inputs [n, …] to class scores [n, classes], in the mode in which it
    trains.
    loss: (scores, targets) → the loss, such as torch.nn.CrossEntropyLoss().
    batch: the private records: inputs [n, numbers], [n, rows, columns] or [n, channels, rows, columns], and
    targets [n].
    local_steps: the number of SGD steps, at least 1, each on the whole batch. With one step the client sends
    a gradient, with more steps it sends weights.
    budget: the wall time, in seconds or as "90s" or "2m".
    lr: the rate of these steps, above 0.
    show: whether the report has pictures of private records.
    tell: hears one line for each finding; by default the line is printed.

    Returns an `Audit`: its report shows itself in a notebook, and `save(folder)` writes it.

    Raises UserError, in one sentence, for models, losses and batches that cannot be audited. The audit
    changes none of them.
    """
    own = client((model, loss, batch), None, local_steps, lr)
    return of_client(own, seconds_of(budget), tell, show=show)


# Of the demo's 200 pictures of 25 × 25 pixels, half are faces.
FACES, EDGE, NEURONS = 100, 25, 1000


def audited(name: str, options: Json, tell: Tell, keep: Callable[[Any], None]) -> Json:
    """Return the audit of what a name stands for, or of the demo, and what its page shows, for JSON."""
    given = Options(**options)

    def told(found: Audit) -> Json:
        found.source, found.declared = name if ":" in name else str(Path(name)), given.declared
        return {"audit": found.to_dict(), "shown": found.shown()}

    def sofar(found: Audit) -> None:
        keep(told(found))

    if given.handed and Path(given.handed).exists():
        torch.manual_seed(0)
        own = taken(Path(given.handed))
        _bound(own.model, given.memory, tell)
        return told(of_client(own, given.budget, tell, show=given.show, keep=sofar))
    if not given.demo and ":" not in name:
        bounded(given.memory)
        return told(of_recorded(Path(name), given, tell, sofar))
    made = demo if given.demo else loaded(name)
    if not callable(made):
        raise UserError(f"is {type(made).__name__}, not a function that returns (model, loss, batch)")
    found = _of_code(made, given, tell, sofar)
    return told(found) if found else {}


def _bound(model: nn.Module | None, memory: float, tell: Tell) -> None:
    """Say about how much memory a search takes, and let allocations beyond the limit fail."""
    used = memory - bounded(memory)
    used += COPIES * sum(p.nbytes for p in model.parameters()) / 2**30 if model else 0.0
    tell(f"look: memory: a search takes about {used:.1f} GB of {memory:g} GB (--memory)")


def _of_code(make: Callable[[], Any], options: Options, tell: Tell, keep: Keep) -> Audit | None:
    """Return the audit of what somebody's function makes or does, or None where it was handed over."""
    torch.manual_seed(0)
    returned, watch = watched(make)
    defence = loaded(options.defence) if options.defence else None
    several = isinstance(returned, tuple | list) and len(returned) > 0
    # A function that trains may return several values too. Flower's clients return weights, a number of
    # records and metrics.
    if several and (isinstance(returned[0], nn.Module) or not watch.trains()):
        own = client(returned, options.batch, options.local_steps, options.lr)
        if options.handed and defence is None and hand_over(own, Path(options.handed)):
            return None
        _bound(own.model, options.memory, tell)
        return of_client(own, options.budget, tell, show=options.show, defence=defence, keep=keep)
    if callable(returned) and not isinstance(returned, nn.Module):
        returned, watch = watched(returned)
    _bound(watch.model, options.memory, tell)
    return of_round(round_in(watch, returned), options.budget, tell, show=options.show, keep=keep)


def demo() -> tuple[nn.Module, nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Return an untrained network, its loss, and 200 pictures with labels, in an order that never changes."""
    with (files("skimage") / "data" / "lfw_subset.npy").open("rb") as file:
        pictures = torch.from_numpy(np.load(file)).float().clamp(0, 1)
    labels = (torch.arange(len(pictures)) < FACES).long()
    rng = torch.Generator().manual_seed(0)
    order = torch.randperm(len(pictures), generator=rng)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(EDGE * EDGE, NEURONS), nn.ReLU(), nn.Linear(NEURONS, 2)
        )
    return network, nn.CrossEntropyLoss(), (pictures[order], labels[order])


def _of_any_loss(seen: Observation, limit: float) -> Observation:
    """Return an update as one of an unknown loss if the mean cross-entropy proves no record of it."""
    first = attack("peel", seen, None, limit) if seen.plain else None
    another = first and not (first.proven or first.why_not)
    return replace(seen, local=seen.local | {"loss": "another"}) if another else seen


def of_recorded(path: Path, options: Options, tell: Tell, keep: Keep = lambda _: None) -> Audit:
    """Audit the updates of a capture, of recorded rounds, or of two files of weights."""
    observation, notes = recorded(path, options, tell)
    begun, clients = time.perf_counter(), len(observation.clients)
    each = [one(observation, *at) for at in product(range(observation.rounds), range(clients))]
    share = options.budget * EXACT_SHARE / len(each)
    parts: list[Watched] = [(_of_any_loss(part, share), None) for part in each]
    again = observation.knows.local_set_repeats
    network = {"network": options.model} if options.model and observation.own is not None else {}
    records = sum(observation.clients) * (1 if again else observation.rounds)
    audit = Audit(
        records, network | {"rounds": observation.rounds, "clients": clients, **observation.in_words()},
        budget=options.budget, least=True,
    )  # fmt: skip
    audit.assumptions = [
        "The records and the loss are unknown here. Only what an attack proves counts, so more may be found.",
        "Clients hold the same records in every round." if again else "Every round has records of its own.",
        f"Clients took {observation.local['epochs']} local steps at rate {observation.local['lr']:g}.",
        *notes,
    ]
    _attacked(audit, parts, options.budget, tell, keep, clients, again)
    audit.seconds = round(time.perf_counter() - begun, 2)
    tell(audit.headline())
    return audit
