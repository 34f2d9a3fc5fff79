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
from leakbench.papers.items import natural
from leakbench.papers.scorecard.kinds import KINDS, kinds
from leakbench.results.figures.words import merged, span
from leakbench.results.report.card import RESULT, VERDICTS, CardLine, cells, columns, groups, lines
from leakbench.results.report.leaks import ATTACKERS, STRONGER, Map
from leakbench.results.report.results import results
from leakbench.results.report.script import digest, loader, packed, script, style
from leakbench.results.report.section import Section, picture
from leakbench.results.report.seeds import held
from leakbench.results.report.seeds import seeds as by_seed
from leakbench.results.report.templates import environment


def page(scorecard: pd.DataFrame, sections: Sequence[Section], facts: Mapping[str, Any]) -> str:
    """Return the whole report as one HTML page."""
    nothing: Facts = {"works": {}, "maps": [], "prices": {}, "links": {}, "verified": {}, "commits": ""}
    said = nothing | {name: facts[name] for name in (*nothing, "scale") if name in facts}
    rows, works = lines(scorecard), said["works"]
    seeds = facts.get("seeds") or _seeds([section for section in sections if not section.recorded])
    seeded = by_seed(facts["seeded"]) if "seeded" in facts else []
    place = {work: number for number, work in enumerate(works)}
    ordered = sorted(sections, key=lambda each: (place.get(each.work, len(place)), natural(each.name)))
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
            contents={
                work: list(part)
                for work, part in itertools.groupby(shown, lambda entry: entry["section"].work)
            },
            seeds=" ".join(map(str, seeds)) or "none",
            versions=dict(facts.get("versions", {})),
            **said,
        )
    )


def mine(rows: Sequence[CardLine], sections: Sequence[Section]) -> dict[str, int]:
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


def _section(section: Section, rows: Sequence[CardLine]) -> Facts:
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


def _belongs(section: Section, line: CardLine) -> bool:
    """Return whether a scorecard row has the item of an experiment, or its condition names the experiment."""
    named = re.search(rf"\b{re.escape(section.name)}(?![\w-])", line["condition"])
    return bool(named) or (line["work"] == section.work and line["item"] == section.item)


def _seeds(sections: Sequence[Section]) -> list[int]:
    texts = {str(text) for each in sections if len(each.table) for text in each.table["seeds"].unique()}
    return sorted({int(seed) for text in texts for seed in text.split()})
