"""The audit of one round: the look, exact attacks, searches, and what would help."""

import html
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leakbench import __version__
from leakbench.audit.alarms import Alarm, Part, alarms
from leakbench.audit.attacks import Beside, besides, catalogue, exact, matching
from leakbench.audit.child import Tell, say
from leakbench.audit.client import Client, Loss, client
from leakbench.audit.found import (
    LABELLED,
    LEVELS,
    NOTHING,
    READ,
    Found,
    combined,
    in_all,
    merged,
    pictures,
)
from leakbench.audit.look import Look, look
from leakbench.audit.options import seconds_of
from leakbench.audit.remedies import Change, Remedy, remedies
from leakbench.audit.report import page, write
from leakbench.audit.round import Round, untrained
from leakbench.audit.view import Truth, facts, view
from leakbench.observations.observation import Observation

# Attackers that follow the protocol, by the letters of Carletti et al. (USENIX Security 2025).
PASSIVE = "ABCD"
ATTACKERS = {
    "A": "sees the update, and knows the network",
    "B": "and knows the number of records, as a server does",
    "C": "and knows how clients train: rate, steps, optimiser",
    "D": "and holds records that may have been in the batch",
    "E": "and holds statistics of a client's records",
    "F": "may also change the weights that it sends out",
    "G": "may change them, and holds similar records",
    "H": "may change them, and chooses the clients",
}
# The share of the budget that one exact attack may take.
EXACT_SHARE = 0.25
# A search runs again only if there is time for this many times its seconds.
LONGER = 1.5
# The share of the budget that is kept for what would help.
HELP_SHARE = 0.3


@dataclass
class Audit:
    """What an audit found.

    `page()` is the report, and `save()` writes the report with its JSON and SARIF.

    records: the number of private records.
    about, look: what was read off the client's code, and what closed forms say.
    alarms, found, besides, remedies: the results of detectors and attacks, of labels and members, and what
    would help, the best change first.
    declared, source, command: what the user states, what was audited, and the whole command.
    least: whether attacks take the training for another one, so that each count is a lower bound.
    assumptions: what the audit takes for granted, one sentence each.
    """

    records: int
    about: dict[str, Any]
    look: Look
    alarms: list[Alarm] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    besides: list[Beside] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    declared: dict[str, float] = field(default_factory=dict)
    budget: float = 0.0
    seconds: float = 0.0
    pictures: list[dict[str, Any]] = field(default_factory=list)
    source: str = "leakbench.audit(model, loss, batch)"
    command: str = ""
    least: bool = False
    assumptions: list[str] = field(default_factory=list)
    version: str = __version__

    def levels(self, letters: str = PASSIVE) -> list[int]:
        """Return the best level of each record over the attackers with these letters, [records]."""
        return combined(self.found, letters) or [NOTHING] * self.records

    def exposed(self, letters: str = PASSIVE) -> int:
        """Return how many records these attackers read."""
        return sum(level >= READ for level in self.levels(letters))

    def recognisable(self, letters: str = PASSIVE) -> int:
        """Return how many records these attackers read or make recognisable."""
        return sum(level > NOTHING for level in self.levels(letters))

    def labelled(self, letters: str = PASSIVE) -> int:
        return sum(level >= LABELLED for level in self.levels(letters))

    def ran(self) -> bool:
        return any(not each.why_not for each in self.found)

    def headline(self) -> str:
        read, seen, of = self.exposed(), self.recognisable(), in_all(self.records)
        least = " (at least)" if self.least else ""
        server = "a server that follows the protocol"
        if read:
            by = [each for each in self.found if each.count(READ)]
            quickest = min(by, key=lambda each: (-each.count(READ), each.proven < read, each.seconds))
            proof = ", certified" if quickest.proven >= read else ""
            who = "anyone who sees the update" if quickest.attacker == "A" else server
            more = f" exactly, {seen} recognisable" if seen > read else ""
            return f"Exposed: {read} {of}{more}{least}, by {who}, in {quickest.seconds:.1f} s{proof}"
        if seen:
            return f"Recognisable: {seen} {of}{least}, by {server}; none was read"
        if self.found and not self.ran():
            why = "; ".join(dict.fromkeys(each.why_not for each in self.found))
            beside = "".join(f", but {each.title}: {each.line}" for each in self.besides if each.ran)
            return f"No attack gave a result{beside}: {why}"
        return f"Not found within the budget of {self.budget:.0f} s: none {of} was read or recognised"

    def by_attacker(self) -> list[dict[str, Any]]:
        """Return what each attacker finds, who also runs the attacks of those before."""
        rows = []
        for letter, what in ATTACKERS.items():
            tried = [each.title for each in self.found if each.attacker == letter and not each.why_not]
            tried += [each.title for each in self.besides if each.attacker == letter and each.ran]
            levels = self.levels(PASSIVE[: PASSIVE.index(letter) + 1]) if letter in PASSIVE else []
            counts = [levels.count(level) for level in range(len(LEVELS))] if levels else None
            rows.append({"letter": letter, "knows": what, "tried": tried, "counts": counts})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the pictures, as values for JSON."""
        own = replace(self, found=[replace(each, images=None) for each in self.found], pictures=[])
        value = {key: item for key, item in asdict(own).items() if key != "pictures"}
        for each in value["found"]:
            del each["images"]
        for each, remedy in zip(value["remedies"], self.remedies, strict=True):
            each |= {"verdict": remedy.verdict, "line": remedy.line()}
        summary = {
            "headline": self.headline(), "exposed": self.exposed(), "recognisable": self.recognisable(),
            "labelled": self.labelled(), "attackers": self.by_attacker(), "ran": self.ran(),
        }  # fmt: skip
        return summary | value

    def page(self) -> str:
        """Return the report as one HTML page, which loads nothing from the network."""
        return page(self.to_dict(), self.pictures)

    def save(self, folder: Path | str) -> Path:
        """Write report.html, audit.json and audit.sarif to `folder`, and return the report's path."""
        return write(Path(folder), self.to_dict(), self.pictures)

    def _repr_html_(self) -> str:
        inside = html.escape(self.page(), quote=True)
        return (
            f'<iframe srcdoc="{inside}" style="width:100%;height:48rem;border:0" title="leakbench"></iframe>'
        )

    def __str__(self) -> str:
        return self.headline()


def of_client(
    own: Client, budget: float, tell: Tell = say, *, show: bool = False, defence: Change | None = None
) -> Audit:
    """Audit a client's round, and measure what would help."""
    # `tell` hears each line of a stage as soon as it is known. `defence` is the user's own candidate, which
    # changes an update into another one of the same shapes.
    begun = time.perf_counter()
    played = own.play()
    audit = of_round(played, budget, tell, show=show, others=own.inputs[own.records :])
    left = budget - (time.perf_counter() - begun)
    audit.remedies = remedies(own, played, audit.found, left, defence)
    for each in audit.remedies:
        tell(f"{each.verdict}: {each.line()}")
    audit.seconds = round(time.perf_counter() - begun, 2)
    return audit


def of_round(
    played: Round, budget: float, tell: Tell, *, show: bool = False, others: Tensor | None = None
) -> Audit:
    """Audit a round that was played already. Members are compared with `others`, inputs of other clients."""
    begun = time.perf_counter()
    observation, truth = view(played, others)
    share = budget * (1 - HELP_SHARE)
    about = facts(played, observation)
    audit = of_observations([(observation, truth)], share, tell, about)
    audit.least = played.least()
    if not audit.recognisable():
        # No change can be measured without a leak, so the searches get the share of what would help.
        _longer(audit, observation, truth, budget - (time.perf_counter() - begun), tell)
    audit.assumptions = assumptions(played, observation)
    if show:
        audit.pictures = pictures(audit.found, truth)
    audit.budget, audit.seconds = budget, round(time.perf_counter() - begun, 2)
    tell(audit.headline())
    return audit


def of_observations(
    parts: Sequence[Part], budget: float, tell: Tell, about: dict[str, Any], clients: int = 1,
    repeats: bool = False,
) -> Audit:  # fmt: skip
    """Run the stages of an audit on the updates of clients.

    parts: for each round and client, what the client sent, with its records or None if they are unknown.
    clients: how many parts each round has, in order.
    repeats: whether each client holds the same records in every round.
    """
    begun = time.perf_counter()
    known = look(*parts[0])
    records = sum(observation.clients[0] for observation, _ in parts[: clients if repeats else None])
    for question, answer in known.facts.items():
        tell(f"look: {question}: {answer}")
    for attack, number in known.predicted.items():
        tell(f"look: {attack} will read {number} {in_all(records)} (predicted)")
    audit = Audit(records, about, known, alarms(parts, budget, clients))
    for alarm in audit.alarms:
        tell(f"detector: {alarm.detector.replace('_', ' ')}: {alarm.line()}")
    for observation, truth in parts:
        for each in besides(observation, truth) if truth is not None else ():
            audit.besides.append(each)
            tell(f"besides: {each.title}: {each.line}")
    entries = catalogue()
    for name, entry in entries.items():
        if entry["stage"] == "matching" and audit.exposed() == records:
            continue
        after = list(entries)[list(entries).index(name) :]
        searches = sum(entries[other]["stage"] == "matching" for other in after)
        found = []
        for number, (observation, truth) in enumerate(parts):
            left = (budget - (time.perf_counter() - begun)) / (len(parts) - number)
            if entry["stage"] == "exact":
                one = exact(name, entry, observation, truth, left * EXACT_SHARE)
            else:
                # One search of sufficient length says more than two short ones.
                one = matching(name, entry, observation, truth, left / searches, left)
            found.append(one)
        whole = merged(found, clients if repeats else 0)
        audit.found.append(whole if parts[0][1] is not None else replace(whole, images=None))
        tell(f"{entry['stage']}: {audit.found[-1].line()}")
    audit.seconds = round(time.perf_counter() - begun, 2)
    return audit


def _longer(audit: Audit, observation: Observation, truth: Truth, limit: float, tell: Tell) -> None:
    searches = [each for each in audit.found if each.trials]
    if not searches:
        return
    best = max(searches, key=lambda each: sum(each.quality))
    about = catalogue()[best.attack]
    if best.iterations >= about["longest"] or limit < LONGER * best.seconds:
        return
    again = matching(best.attack, about, observation, truth, limit)
    if again.trials and again.iterations > best.iterations:
        audit.found[audit.found.index(best)] = again
        tell(f"matching, with the rest of the budget: {again.line()}")


def assumptions(played: Round, observation: Observation) -> list[str]:
    """Return what the audit takes for granted, one sentence each."""
    found = [
        "The server sees each client's update by itself; with secure aggregation it sees sums.",
        "The attacker knows the network's code and the range of each input channel.",
        "A record counts as read if no value is off by more than half of one of 255 steps of its range. It "
        "counts as recognisable if the reconstruction explains half of its variation and is nearer than what "
        "the attack makes of noise, and than the batch's mean.",
        "One round of one client was audited, with one draw of the attacks' chance.",
    ]
    done, steps = played.replayed
    again = f"{done} of {steps} local steps were computed again, with the recorded loss, modes and precision"
    if played.differs:
        found.append(f"{again}. They differ from plain training: {'; '.join(played.differs.values())}.")
    else:
        found.append(f"Checked: {again}, and give the client's update.")
    if not played.plain_steps:
        found.append(
            f"Clients train with {played.optimiser}. Attacks take its steps for plain SGD, so they may find "
            "less than an attacker who inverts the optimiser."
        )
    if not played.plain_loss:
        found.append(
            f"The loss: {played.loss}. Exact attacks prove records by the span of the update, which needs no "
            "loss, and name no labels. Searches take it for the mean cross-entropy, and seek its labels. No "
            "label counts are read. An attacker who knows the loss may find more."
        )
    if played.precision:
        found.append(
            f"Layers compute in {played.precision}, so the update is rounded. Searches compute in float32. "
            "An attacker who knows the precision may find more."
        )
    if frozen := untrained(played.model, played.update):
        found.append(f"{frozen} are not trained, so nothing is sent of them, and attacks leave them out.")
    if observation.dropout:
        found.append("Dropout masks are the client's secret; attacks leave dropout out.")
    if played.kind == "gradient":
        found.append("One local step sends its gradient in float32 (FedSGD).")
    return found


def audit(
    model: nn.Module,
    loss: Loss,
    batch: tuple[torch.Tensor, torch.Tensor],
    local_steps: int = 5,
    budget: str | float = "2m",
    *,
    lr: float = 0.01,
    show: bool = False,
    tell: Tell = say,
) -> Audit:
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
