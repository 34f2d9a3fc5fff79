"""What an audit found: its levels, attackers and answers, in words and as values for JSON."""

import html
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from leakbench import __version__
from leakbench.audit.child import Json
from leakbench.audit.detectors import Alarm
from leakbench.audit.findings import LABELLED, LEVELS, NOTHING, READ, RECOGNISABLE, Attempt, combined, in_all
from leakbench.audit.inference import TOKENS, Inference
from leakbench.audit.page import page, write
from leakbench.audit.predictions import Look
from leakbench.audit.remedies import Remedy
from leakbench.audit.steps import words
from leakbench.papers.bibliography import source

# Attackers that follow the protocol.
PASSIVE = "ABCD"


@dataclass
class Audit:
    """What an audit found.

    `page()` is the report, and `save()` writes the report with its JSON and SARIF.

    records: the number of private records.
    about, look: what was read off the client's code, and what closed forms say.
    alarms, found, besides, remedies: the results of detectors and attacks, of labels and members, and what
    would help, the best change first.
    declared, source, command: what the user states, what was audited, and the whole command.
    least: whether each count is a lower bound; the assumptions say why.
    assumptions: what the audit takes for granted, one sentence each.
    """

    records: int
    about: Json
    look: Look = field(default_factory=Look)
    alarms: list[Alarm] = field(default_factory=list)
    found: list[Attempt] = field(default_factory=list)
    besides: list[Inference] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    declared: dict[str, float] = field(default_factory=dict)
    budget: float = 0.0
    seconds: float = 0.0
    # For the page alone: pictures, and the private records with what is special about each.
    pictures: list[Json] = field(default_factory=list)
    affected: list[Json] = field(default_factory=list)
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
        least = " (at least)" if self.least and (read or seen) < self.records else ""
        server = "a server that follows the protocol"
        if tokens := next((each for each in self.besides if each.title == TOKENS and each.ran), None):
            told = f"Exposed: {tokens.line}, by anyone who sees the update, in {tokens.seconds:.1f} s"
            members = (f"; recognisable: {seen} {of}{least}{each.by}" for each in self.found if seen)
            return told + "".join(members)
        if read:
            by = [each for each in self.found if each.count(READ)]
            quickest = min(by, key=lambda each: (-each.count(READ), not each.certified(), each.seconds))
            proof = ", certified" if quickest.certified() and quickest.proven >= read else ""
            who = "anyone who sees the update" if quickest.attacker == "A" else server
            more = f" exactly, {seen} recognisable" if seen > read else ""
            return f"Exposed: {read} {of}{more}{least}, by {who}, in {quickest.seconds:.1f} s{proof}"
        if seen:
            how = "".join(each.by for each in self.found if each.count(RECOGNISABLE))
            return f"Recognisable: {seen} {of}{least}{how}, by {server}; none was read"
        beside = "; ".join(f"{each.title}: {each.line}" for each in self.besides if each.ran)
        if self.found and not self.ran():
            if beside:
                return f"No attack on records gave a result; {beside}"
            return f"No attack gave a result: {'; '.join(dict.fromkeys(each.why_not for each in self.found))}"
        longest = max((each.iterations for each in self.found), default=0)
        searched = f", and no search had more than {longest:,} iterations" if longest else ""
        told = f"none {of} was read or recognised{searched}"
        return (
            f"Not found within the budget of {self.budget:.0f} s: {'; '.join(filter(None, [told, beside]))}"
        )

    def answers(self) -> dict[str, str]:
        """Return the answer to each question of a privacy officer, in the words of data protection boards."""
        read, seen, of = self.exposed(), self.recognisable(), in_all(self.records)
        least = "at least " if self.least and seen < self.records else ""
        exactly = f"{read} were read value by value" if read else "none was read exactly"
        if seen:
            single = f"Yes: {least}{seen} {of} can be told from all others, and {exactly}."
        elif self.ran():
            single = f"Not shown: the attacks that ran neither read nor recognised any {of}."
        else:
            single = "Not tested: no attack on records could run."
        told = {each.title: each for each in self.besides}
        found = {"Singling out": single}
        value = TOKENS if TOKENS in told else "label counts"
        for question, title in {"Linkability": "membership", "Inference": value}.items():
            line = told[title].line if title in told else "no such attack fits this client"
            if title not in told or not told[title].ran:
                line = f"not tested: {line.removeprefix('not run: ')}"
            found[question] = f"{line[:1].upper()}{line[1:]}."
        return found

    def by_attacker(self) -> list[Json]:
        """Return what each attacker finds, who also runs the attacks of those before."""
        rows = []
        for letter, what in words("attackers").items():
            tried = [each.title for each in self.found if each.attacker == letter and not each.why_not]
            tried += [each.title for each in self.besides if each.attacker == letter and each.ran]
            levels = self.levels(PASSIVE[: PASSIVE.index(letter) + 1]) if letter in PASSIVE else []
            counts = [levels.count(level) for level in range(len(LEVELS))] if levels else None
            rows.append({"letter": letter, "knows": what, "tried": tried, "counts": counts})
        return rows

    def to_dict(self) -> Json:
        """Return everything but what the page alone shows, as values for JSON."""
        own = replace(self, found=[replace(each, images=None) for each in self.found], pictures=[])
        value = {key: item for key, item in asdict(own).items() if key not in ("pictures", "affected")}
        del value["look"]["alone"]
        for each in value["found"]:
            del each["images"]
        for each, remedy in zip(value["remedies"], self.remedies, strict=True):
            each |= {"verdict": remedy.verdict, "line": remedy.line()}
        summary = {
            "headline": self.headline(), "exposed": self.exposed(), "recognisable": self.recognisable(),
            "labelled": self.labelled(), "attackers": self.by_attacker(), "ran": self.ran(),
            "answers": self.answers(),
        }  # fmt: skip
        return summary | value

    def shown(self) -> Json:
        """Return what the page alone shows, as values for JSON."""
        sources = [f"{source(key)} ({what})" for key, what in words("sources").items()]
        shown = {"pictures": self.pictures, "affected": self.affected}
        return shown | {"levels": LEVELS, "sources": sources}

    def page(self) -> str:
        """Return the report as one HTML page, which loads nothing from the network."""
        return page(self.to_dict(), self.shown())

    def save(self, folder: Path | str) -> Path:
        """Write report.html, audit.json and audit.sarif to `folder`, and return the report's path."""
        return write(Path(folder), self.to_dict(), self.shown())

    def _repr_html_(self) -> str:
        inside = html.escape(self.page(), quote=True)
        return (
            f'<iframe srcdoc="{inside}" style="width:100%;height:48rem;border:0" title="leakbench"></iframe>'
        )

    def __str__(self) -> str:
        return self.headline()
