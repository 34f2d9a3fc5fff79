"""The report of an audit: a page, JSON, and SARIF."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Any

from markupsafe import Markup

from leakbench.base.artefacts import write_bytes
from leakbench.base.errors import UserError
from leakbench.papers.bibliography import source
from leakbench.results.report.numbers import count, number
from leakbench.results.report.templates import environment

NAMES = ("audit.json", "audit.sarif", "report.html")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = ("nothing found", "recognisable", "read", "read with label")
# The largest number of bars for which a phone has room.
MOST = 11
DECLARED = {
    "clients": "clients of the federation",
    "rounds": "rounds that a client takes part in",
    "prior": "probability that somebody attacks",
}
# Key of config/bibliography.yaml → what the page takes from that work.
SOURCES = {
    "sok": "letters A to H",
    "hayes": "certified probability",
    "gdpr": "Article 35: impact assessment",
    "edpb": "extraction of personal data from models",
    "edps": "leaks through updates",
}


def page(audit: Mapping[str, Any], pictures: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the report of `Audit.to_dict()` as one HTML page."""
    # The page loads nothing from the network and runs no script. Everything is escaped.
    templates = environment("leakbench.audit")
    templates.filters |= {"number": number, "count": count}
    style = (files("leakbench.audit") / "page.css").read_text(encoding="utf-8")
    ran = [found for found in audit["found"] if not found["why_not"]]
    beside = [each for each in audit["besides"] if each["ran"]]
    text = templates.get_template("page.html.j2").render(
        audit=audit,
        style=Markup(style),
        pictures=pictures,
        levels=LEVELS,
        attacks=[_row(found) for found in audit["found"]],
        degrees=_bars(audit["look"]["degrees"]),
        declared={DECLARED[name]: value for name, value in audit["declared"].items()},
        expected=_expected(audit),
        command=_command(audit),
        sources=[
            *dict.fromkeys(f"{found['title']}: {found['source']}" for found in [*ran, *beside]),
            *(f"{source(key)} ({what})" for key, what in SOURCES.items()),
        ],
    )
    # The name of a class may hold what commands a terminal.
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: ascii(found[0])[1:-1], text)


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    counts = [found["levels"].count(level) for level in range(len(LEVELS))]
    return {**found, "counts": None if found["why_not"] else counts}


def _bars(degrees: Sequence[int]) -> list[dict[str, Any]]:
    shown = list(degrees[1:])
    step = -(-len(shown) // MOST) or 1
    groups = [
        (f"{at + 1}" if step == 1 else f"{at + 1}–{min(at + step, len(shown))}", sum(shown[at : at + step]))
        for at in range(0, len(shown), step)
    ]
    most = max((size for _, size in groups), default=0) or 1
    return [{"of": of, "neurons": size, "share": round(100 * size / most)} for of, size in groups]


def _expected(audit: Mapping[str, Any]) -> float | None:
    declared = audit["declared"]
    if set(declared) != set(DECLARED):
        return None
    return float(declared["prior"] * declared["clients"] * declared["rounds"] * audit["exposed"])


def _command(audit: Mapping[str, Any]) -> str:
    """Return the command or the call that makes the audit again, with the options that are known."""
    if audit["command"]:
        return str(audit["command"])
    source = audit["source"]
    if "(" in source:
        return str(source)
    about = audit["about"]
    words = ["leakbench", "audit", source if source == "--demo" else quote(source)]
    if ":" in source or source == "--demo":
        words += ["--batch", str(audit["records"]), "--local-steps", str(about["local steps"])]
    if "rounds" in about and "network" in about:
        words += ["--model", quote(about["network"])]
    return " ".join([*words, "--budget", f"{audit['budget']:g}s"])


def sarif(audit: dict[str, Any]) -> dict[str, Any]:
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
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


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


def write(folder: Path, audit: dict[str, Any], pictures: list[dict[str, Any]]) -> Path:
    """Write the files of an audit to `folder`, and return the report's path. Only the page has pictures."""
    texts = (
        json.dumps(audit, indent=1) + "\n",
        json.dumps(sarif(audit), indent=1) + "\n",
        page(audit, pictures),
    )
    with _writing(folder):
        for name, text in zip(NAMES, texts, strict=True):
            # A file name of the user may hold bytes that are no text.
            write_bytes(folder / name, text.encode(errors="backslashreplace"))
    return folder / NAMES[-1]
