"""The published marks of a figure: what the papers print of an experiment, in our words and unit."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from leakbench.papers.join import OUTCOMES, RowReading, read
from leakbench.papers.work import Claim, Work

OF_FIGURES = re.compile(r"(fig|table)-")
COLUMNS = ("experiment", "id", "value", "word", "says", "convention", "metric")


def marks(works: Sequence[Work], experiment: str) -> pd.DataFrame:
    """Return one line for each printed number or outcome that belongs to one row of an experiment's table."""
    # A line of an outcome has the word `success` or `failure` instead of a value.
    return framed(each for each in every_mark(works) if each["experiment"] == experiment)


def framed(lines: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    found = list(lines)
    return pd.DataFrame(found, columns=None if found else COLUMNS)


def every_mark(works: Sequence[Work]) -> Iterator[Mapping[str, Any]]:
    """Yield the lines of the marks of all experiments."""
    for work in works:
        for row in (row for rows in work.tables.values() for row in rows):
            reading = read(work, row)
            word = row.published if row.published in OUTCOMES else ""
            if not word and math.isnan(row.number.value):
                continue
            value = math.nan if word else row.number.value / reading.unit
            mark = {"experiment": "", "id": row.id, "value": value, "word": word, "convention": "standard"}
            yield from (mark | dict(where) for where in places(reading))


def places(reading: RowReading) -> Iterator[Mapping[str, Any]]:
    """Yield the columns of each row of ours beside which a printed row is drawn."""
    own = reading.where if reading.way in ("mean", "outcome") else {}
    if own:
        yield own
    if "experiment" in reading.drawn:
        yield {**own, **reading.drawn}


def sentences(works: Sequence[Work], work: str, item: str, experiment: str) -> pd.DataFrame:
    """Return one line for each sentence that a work prints and an experiment's figure shows."""
    claims = [each for own in works if own.name == work for each in own.claims.claims]
    return framed(
        {
            "experiment": experiment, "id": each.id, "value": math.nan,
            "says": each.claim.rstrip(".")
            + ("" if part_of(item, each.item) else f" ({each.item.replace('-', ' ')})"),
        }
        for each in claims if shows(each, item, experiment)
    )  # fmt: skip


def shows(claim: Claim, item: str, experiment: str) -> bool:
    """Return whether the figure of an experiment about an item shows what a claim says."""
    # The claim is about the same figure or table of the work, or is judged by the experiment's numbers.
    own = part_of(item, claim.item) or claim.read.get("experiment") == experiment
    return bool(own and OF_FIGURES.match(claim.item))


def part_of(item: str, whole: str) -> bool:
    """Return whether an item is another or a part of it, as table-3.6-batch64 is of table-3.6."""
    return f"{item}-".startswith(f"{whole}-")
