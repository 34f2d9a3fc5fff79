"""docs/figures.md: the figures and tables of the core works in their order, and what of them is measured."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from leakbench.papers.work import Work

HEAD = """\
# Figures and tables of the core works

This page is generated. It lists what each work prints, in the work's order. The second column says whether
the work prints `numbers` or `words`; a picture is judged by the sentence about it. The third has how many
rows of the scorecard are measured in recorded tables, of all rows of the item. Settings are compared by the
scorecard of a run. `snakemake --cores 2 results/quick/figures/NAME.png` draws experiment NAME, from its
longest record.
"""
COLUMNS = ("item", "printed", "measured", "ours", "not run, mostly because")
KEY = re.compile(r"\d+|\D+")


class Drawn(NamedTuple):
    """An experiment, the item that it is about, and whether it has a figure."""

    work: str
    item: str
    name: str
    figure: bool


def page(works: Iterable[Work], card: pd.DataFrame, experiments: Sequence[Drawn]) -> str:
    """Return the page.

    works: the works, in the order of the page.
    card: a scorecard with all of their rows.
    experiments: every experiment.
    """
    parts = [HEAD]
    for work in works:
        own = card[(card["work"] == work.name) & card["item"].str.match(r"(fig|table)-")]
        asked = [each for each in experiments if each.work == work.name]
        head = [f"## {work.paper.title}", "", f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
        parts += head
        parts += [
            _line(item, own[own["item"] == item], asked) for item in sorted(set(own["item"]), key=_natural)
        ]
        parts.append("")
    return "\n".join(parts)


def _natural(item: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in KEY.findall(item)]


def _line(item: str, rows: pd.DataFrame, experiments: Iterable[Drawn]) -> str:
    # An item has its own experiment and variants, such as table-3.6 and table-3.6-batch64.
    ours = [each for each in experiments if each.item == item or each.item.startswith(f"{item}-")]
    named = ", ".join(f"`{each.name}`" + ("" if each.figure else " (table)") for each in ours)
    printed = "numbers" if (rows["metric"] != "claim").any() else "words"
    rows = rows[rows["class"] != "setting"]
    missing = rows.loc[rows["verdict"] == "not-run", "reason"]
    why = missing.mode()[0].replace("|", "·") if len(missing) else ""
    measured = f"{len(rows) - len(missing)} of {len(rows)}" if len(rows) else "settings"
    # Whether an experiment has no record at all or none of this part does not matter here.
    why = "not recorded" if why.startswith("no results of") else why
    return f"| {item} | {printed} | {measured} | {named} | {why} |"
