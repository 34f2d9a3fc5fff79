"""docs/figures.md: the figures and tables of the core works in their order, and what of them is measured."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import pandas as pd

from leakbench.papers.join import OUTCOMES, read
from leakbench.papers.marks import OF_FIGURES, part_of, places, shows
from leakbench.papers.work import Claim, Work

HEAD = """\
# Figures and tables of the core works

This page is generated. It lists what each work prints, in the work's order. The second column has how many
rows of the scorecard are measured in recorded tables, of all rows of the item, and whether the work prints
`numbers` or `words`; a picture is judged by the sentence about it. The third has the verdicts. Settings are
compared by the scorecard of a run. The fourth has our figures and what they are: `images`, `dots`, `curves`
or a `map` of squares. The fifth says what of the print stands in them: how many of the measured numbers and
outcomes, or the sentences. The next says why rows are not measured, and the last how many core-hours the
item's experiments take at the published sizes, by the cost model.
`snakemake --cores 2 results/quick/figures/NAME.png` draws experiment NAME, from its longest record.
"""
COLUMNS = ("item", "measured", "verdicts", "ours", "print in ours", "why not, mostly", "core-hours")
# The words of the scorecard for what is measured, in its order.
WORDS = ("reproduced", "direction", "differs", "inconclusive")
# What stands in no figure or table of a work.
TEXT = "text"
# The name of a drawing → what it is called here, where that is another word.
CALLED = {"grid": "images", "side-by-side": "images", "lines": "curves", "squares": "map"}
KEY = re.compile(r"\d+|\D+")
Hours = Callable[[Sequence[str]], float]


class DrawnItem(NamedTuple):
    """An experiment, the item that it is about, and its figure."""

    work: str
    item: str
    name: str
    kinds: Sequence[str]  # the names of the drawings
    shows: Mapping[str, Set[str]]  # experiment → the metrics of its recorded table that are drawn


def page(works: Iterable[Work], card: pd.DataFrame, experiments: Sequence[DrawnItem], hours: Hours) -> str:
    """Return the page of some works, by a scorecard with all of their rows and every experiment."""
    # hours: what some experiments take together at the published sizes, in core-hours.
    parts = [HEAD]
    for work in works:
        own = card[card["work"] == work.name]
        own = own.assign(item=own["item"].where(own["item"].str.match(OF_FIGURES), TEXT))
        asked, read_from = [each for each in experiments if each.work == work.name], _read_from(work)
        parts += [f"## {work.paper.title}", "", f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
        for item in sorted(set(own["item"]), key=natural):
            claims = [claim for claim in work.claims.claims if claim.item == item]
            parts.append(_line(item, own[own["item"] == item], asked, read_from, claims, hours))
        parts.append("")
    return "\n".join(parts)


def natural(item: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in KEY.findall(item)]


def _read_from(work: Work) -> dict[str, list[tuple[str, str]]]:
    """Return id of a printed number or outcome → the experiments and metrics that it is drawn beside."""
    rows = [row for table in work.tables.values() for row in table]
    said = [row for row in rows if row.published in OUTCOMES or not math.isnan(row.number.value)]
    return {row.id: [(at["experiment"], at["metric"]) for at in places(read(work, row))] for row in said}


def _line(
    item: str, rows: pd.DataFrame, experiments: Iterable[DrawnItem],
    read_from: Mapping[str, Sequence[tuple[str, str]]], claims: Sequence[Claim],
    hours: Hours,
) -> str:  # fmt: skip
    measured = rows.loc[(rows["class"] != "setting") & (rows["verdict"] != "not-run"), "id"]

    def beside(each: DrawnItem) -> set[str]:
        """Return the measured rows that a figure draws."""
        return {i for i in measured for name, of in read_from.get(i, ()) if of in each.shows.get(name, ())}

    # An item has its own experiment and variants, such as table-3.6 and table-3.6-batch64, and may stand in
    # the figure of another item.
    worded = [each for each in experiments if any(shows(claim, each.item, each.name) for claim in claims)]
    ours = [each for each in experiments if part_of(each.item, item) or beside(each) or each in worded]
    kinds = [", ".join(dict.fromkeys(CALLED.get(kind, kind) for kind in each.kinds)) for each in ours]
    named = ", ".join(f"`{each.name}` ({of})" for each, of in zip(ours, kinds, strict=True))
    printed = "numbers" if (rows["metric"] != "claim").any() else "words"
    numbers = len(set().union(*(beside(each) for each in ours)))
    drawn = [f"{numbers} number{'s' * (numbers > 1)}"] if numbers else []
    drawn += ["words"] if worded else []
    rows = rows[rows["class"] != "setting"]
    missing = rows.loc[rows["verdict"] == "not-run", "reason"]
    why = missing.mode()[0].replace("|", "·") if len(missing) else ""
    count = f"{len(measured)} of {len(rows)} {printed}" if len(rows) else "settings"
    # Whether an experiment has no record at all or none of this part does not matter here.
    why = "not recorded" if why.startswith("no results of") else why
    said = Counter(rows["verdict"])
    words = ", ".join(f"{said[word]} {word}" for word in WORDS if said[word])
    of_item = [each.name for each in experiments if part_of(each.item, item)]
    cost = f"{math.ceil(hours(of_item)):,}" if of_item else ""
    return f"| {' | '.join((item, count, words, named, ', '.join(drawn), why, cost))} |"
