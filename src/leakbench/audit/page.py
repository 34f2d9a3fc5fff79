"""Assembles the report of an audit."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from shlex import quote
from typing import Any

from markupsafe import Markup

from leakbench.catalogue.bibliography import source
from leakbench.results.report.numbers import count, number
from leakbench.results.report.templates import environment

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
    """Return the report as one HTML page.

    The page loads nothing from the network and runs no script. Everything is escaped.

    audit: `Audit.to_dict()`.
    pictures: of records beside reconstructions, as PNG data addresses.
    """
    templates = environment("leakbench.audit")
    templates.filters |= {"number": number, "count": count}
    style = (files("leakbench.audit") / "page.css").read_text(encoding="utf-8")
    ran = [found for found in audit["found"] if not found["why_not"]]
    beside = [each for each in audit["besides"] if each["ran"]]
    return templates.get_template("page.html.j2").render(
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


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    counts = [found["levels"].count(level) for level in range(len(LEVELS))]
    return {**found, "counts": None if found["why_not"] else counts}


def _bars(degrees: Sequence[int]) -> list[dict[str, Any]]:
    """Return bars of the neurons that are open for 1, 2, … records, at most MOST of them."""
    shown = list(degrees[1:])
    step = -(-len(shown) // MOST) or 1
    groups = [
        (f"{at + 1}" if step == 1 else f"{at + 1}–{min(at + step, len(shown))}", sum(shown[at : at + step]))
        for at in range(0, len(shown), step)
    ]
    most = max((size for _, size in groups), default=0) or 1
    return [{"of": of, "neurons": size, "share": round(100 * size / most)} for of, size in groups]


def _expected(audit: Mapping[str, Any]) -> float | None:
    """Return the expected number of exposed records of the federation.

    Return None unless the user declared all of DECLARED.
    """
    declared = audit["declared"]
    if set(declared) != set(DECLARED):
        return None
    return float(declared["prior"] * declared["clients"] * declared["rounds"] * audit["exposed"])


def _command(audit: Mapping[str, Any]) -> str:
    """Return the command or the call that makes the audit again.

    If no command started the audit, the returned command has the options that are known.
    """
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
