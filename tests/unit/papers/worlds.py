"""The works of papers/, judged on made-up tables: what the modules of single works share."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pandas as pd
from project import ROOT

from leakbench.catalogue.load import load_kind
from leakbench.papers.join import RowReading, read
from leakbench.papers.printed import Row
from leakbench.papers.scorecard.evidence import ScaleEvidence
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work, read_papers

CONFIG = ROOT / "config"
KNOWN = frozenset(load_kind(CONFIG, "experiments"))


@cache
def works() -> dict[str, Work]:
    return {work.name: work for work in read_papers(ROOT / "papers")}


def judged(name: str, scale: ScaleEvidence) -> pd.DataFrame:
    return Card([works()[name]], [scale], scale).frame().set_index("id")


def as_printed(name: str, *ways: str) -> Iterator[tuple[Row, RowReading, dict[str, Any], float]]:
    """Yield each printed row that is measured in one of some ways, its columns of ours, and its value."""
    for row in (row for rows in works()[name].tables.values() for row in rows):
        reading = read(works()[name], row)
        if reading.way in ways:
            yield row, reading, dict(reading.where), row.number.value / reading.unit
