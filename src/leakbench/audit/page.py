"""The files of an audit: a page, JSON, and SARIF. No import of this file loads torch."""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakbench.audit.child import Json
from leakbench.base.artefacts import write_bytes
from leakbench.base.errors import UserError
from leakbench.results.report.numbers import count, number
from leakbench.results.report.templates import environment

NAMES = ("audit.json", "audit.sarif", "report.html")
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def page(audit: Json, shown: Json) -> str:
    """Return the report of `Audit.to_dict()` and `Audit.shown()` as one HTML page."""
    # The page loads nothing from the network and runs no script. Everything is escaped.
    templates = environment("leakbench.audit")
    templates.filters |= {"number": number, "count": count}
    affected = shown.get("affected", [])
    # What is special about records → how many of those that leak, and of the others.
    special: dict[str, list[int]] = {}
    for each in affected:
        for why in each["why"]:
            special.setdefault(why, [0, 0])[not each["level"]] += 1
    known = shown | {"audit": audit, "affected": affected, "special": special}
    text = templates.get_template("page.html.j2").render(known)
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
