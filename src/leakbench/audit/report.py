"""The report of an audit: a page, JSON, and SARIF."""

import html
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from leakbench import __version__
from leakbench.audit.child import Json
from leakbench.audit.detectors import Alarm
from leakbench.audit.findings import LABELLED, LEVELS, NOTHING, READ, RECOGNISABLE, Found, combined, in_all
from leakbench.audit.inference import TOKENS, Inference
from leakbench.audit.predictions import Look
from leakbench.audit.remedies import Remedy
from leakbench.audit.steps import words
from leakbench.base.artefacts import write_bytes
from leakbench.base.errors import UserError
from leakbench.papers.bibliography import source
from leakbench.results.report.numbers import count, number
from leakbench.results.report.templates import environment

NAMES = ("audit.json", "audit.sarif", "report.html")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def page(audit: Json, shown: Json) -> str:
    """Return the report of `Audit.to_dict()` and `Audit.shown()` as one HTML page."""
    # The page loads nothing from the network and runs no script. Everything is escaped.
    templates = environment("leakbench.audit")
    templates.filters |= {"number": number, "count": count}
    sources = [f"{source(key)} ({what})" for key, what in words("sources").items()]
    affected = shown.get("affected", [])
    # What is special about records → how many of those that leak, and of the others.
    special: dict[str, list[int]] = {}
    for each in affected:
        for why in each["why"]:
            special.setdefault(why, [0, 0])[not each["level"]] += 1
    text = templates.get_template("page.html.j2").render(
        audit=audit, pictures=shown.get("pictures"), affected=affected, special=special, levels=LEVELS,
        sources=sources,
    )  # fmt: skip
    # The name of a class may hold what commands a terminal.
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: ascii(found[0])[1:-1], text)


def sarif(audit: Json) -> Json:
    """Return `Audit.to_dict()` as SARIF 2.1.0, which continuous integration reads: a result for each leak."""
    place = audit["source"].partition(":")[0]
    results, rules = [], []
    for found in audit["found"]:
        read, seen = (sum(level >= least for level in found["levels"]) for least in (2, 1))
        if not seen:
            continue
        rule = f"leak/{found['attack']}"
        rules.append({"id": rule, "shortDescription": {"text": f"{found['title']} ({found['source']})"}})
        text = (
            f"{found['title']} reads {read} of {found['records']} records and makes {seen - read} more "
            "recognisable."
        )
        results.append({
            "ruleId": rule, "level": "error" if read else "warning", "message": {"text": text},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": place}}}],
            "properties": {key: found[key] for key in ("attacker", "proven", "seconds")},
        })  # fmt: skip
    driver = {"name": "leakbench audit", "version": audit["version"], "rules": rules}
    notes = [{"level": "note", "message": {"text": each}} for each in audit["assumptions"]]
    ran = {"executionSuccessful": True, "toolExecutionNotifications": notes}
    run = {"tool": {"driver": driver}, "invocations": [ran], "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as problem:
        why = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise UserError(f"{folder}: cannot hold the report: {why} (name another folder)") from problem


def probe(folder: Path) -> None:
    """Raise UserError if the files of an audit could not be written to `folder`."""
    # Otherwise the audit would find out when its budget is spent. The check leaves nothing in the folder.
    missing: list[Path] = []
    try:
        with _writing(folder):
            missing += [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
            for path in map(folder.joinpath, NAMES):
                if path.is_dir():
                    raise UserError(f"{path}: is a folder, in the place of a report's file (remove it)")
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()


def write(folder: Path, audit: Json, shown: Json) -> Path:
    """Write the files of an audit to `folder`, and return the report's path. The page alone has `shown`."""
    both = (json.dumps(each, indent=1) + "\n" for each in (audit, sarif(audit)))
    texts = (*both, page(audit, shown))
    with _writing(folder):
        for name, text in zip(NAMES, texts, strict=True):
            # A file name of the user may hold bytes that are no text.
            write_bytes(folder / name, text.encode(errors="backslashreplace"))
    return folder / NAMES[-1]


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
    found: list[Found] = field(default_factory=list)
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
        return {"pictures": self.pictures, "affected": self.affected}

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
