"""Assembles the page of the report."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from leakbench.base.artefacts import Facts
from leakbench.papers.scorecard.kinds import KINDS, kinds
from leakbench.results.figures.words import merged, span
from leakbench.results.report.card import RESULT, VERDICTS, Line, cells, columns, groups, lines
from leakbench.results.report.leaks import ATTACKERS, STRONGER, Map
from leakbench.results.report.results import results
from leakbench.results.report.script import digest, loader, packed, script, style
from leakbench.results.report.section import Section, picture
from leakbench.results.report.seeds import held
from leakbench.results.report.seeds import seeds as by_seed
from leakbench.results.report.templates import environment


def page(scorecard: pd.DataFrame, sections: Sequence[Section], facts: Mapping[str, Any]) -> str:
    """Return the whole report as one HTML page."""
    rows, works = lines(scorecard), facts.get("works", {})
    seeds = facts.get("seeds") or _seeds([section for section in sections if not section.recorded])
    seeded = by_seed(facts["seeded"]) if "seeded" in facts else []
    ordered = sorted(sections, key=lambda section: _place(section, list(works)))
    shown = [_section(section, rows) for section in ordered]
    return (
        environment("leakbench.results.report")
        .get_template("page.html.j2")
        .render(
            style=Markup(style()),
            code=packed(script()),
            loader=Markup(loader()),
            digests=[digest(loader()), digest(script())],
            columns=columns(),
            # Rows that were measured come first.
            rows=packed(json.dumps(cells(sorted(rows, key=lambda line: line["word"] == "not-run")))),
            mine=mine(rows, sections),
            headlines=[line for line in rows if line["headline"]],
            seeded=seeded,
            held=held(seeded),
            maps=facts.get("maps", []),
            prices=facts.get("prices", {}),
            overall=[Map("Any network here", rows) for rows in facts.get("overall", ()) if rows],
            attackers=ATTACKERS,
            stronger=STRONGER,
            groups=groups(rows, works, facts.get("core", ())),
            kinds=KINDS,
            worth=kinds(scorecard, facts.get("core", ())),
            verdicts=VERDICTS,
            total=len(rows),
            drawn=[entry for entry in shown if not _bare(entry)],
            bare=[entry for entry in shown if _bare(entry)],
            links=facts.get("links", {}),
            contents={
                work: list(part)
                for work, part in itertools.groupby(shown, lambda entry: entry["section"].work)
            },
            works=works,
            scale=facts["scale"],
            seeds=" ".join(map(str, seeds)) or "none",
            versions=dict(facts.get("versions", {})),
            verified=facts.get("verified", {}),
            commits=facts.get("commits", ""),
        )
    )


def mine(rows: Sequence[Line], sections: Sequence[Section]) -> dict[str, int]:
    """Return what the run measured itself: rows of results, and experiments that a record shows instead."""
    measured = [line for line in rows if line["class"] == RESULT and line["measured"]]
    own = [line for line in measured if line["mine"]]
    agree = Counter(line["agrees"] for line in own)
    return {
        "rows": len(own), "of": len(measured), "agree": agree["yes"], "not": agree["no"],
        "recorded": sum(bool(section.recorded) for section in sections), "experiments": len(sections),
    }  # fmt: skip


def _bare(entry: Facts) -> bool:
    return not (entry["picture"] or entry["results"].rows)


def _section(section: Section, rows: Sequence[Line]) -> Facts:
    found = [line for line in rows if line["word"] != "not-run" and _belongs(section, line)]
    counts = Counter(line["word"] for line in found)
    own = section.table[section.table["baseline"].fillna("") == ""] if len(section.table) else section.table
    return {
        "section": section,
        "picture": picture(section.figure),
        "lines": found,
        "verdicts": {word: counts[word] for word in VERDICTS if counts[word]},
        "results": results(section.table),
        "threat": merged(section.knows),
        "reasons": Counter(section.absent.values()).most_common(),
        "n": {unit: span(part["n"]) for unit, part in own.groupby("unit")} if len(own) else {},
        "seeds": " ".join(map(str, _seeds([section]))) or "none",
    }


def _place(section: Section, works: Sequence[str]) -> tuple[int, list[tuple[int, str]]]:
    """Return by what sections are sorted: the place of their work, then their name."""
    work = works.index(section.work) if section.work in works else len(works)
    parts = re.findall(r"\d+|\D+", section.name)
    return work, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _belongs(section: Section, line: Line) -> bool:
    """Return whether a scorecard row has the item of an experiment, or its condition names the experiment."""
    named = re.search(rf"\b{re.escape(section.name)}(?![\w-])", line["condition"])
    return bool(named) or (line["work"] == section.work and line["item"] == section.item)


def _seeds(sections: Sequence[Section]) -> list[int]:
    texts = {str(text) for each in sections if len(each.table) for text in each.table["seeds"].unique()}
    return sorted({int(seed) for text in texts for seed in text.split()})
