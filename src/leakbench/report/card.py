"""The scorecard as the page shows it: counts, then rows by source and item, what was not run apart."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from leakbench.report.numbers import count, interval, number

VERDICTS = {
    "reproduced": "the published value lies inside the interval or the stated tolerance, or the claim holds throughout it",
    "direction": "the ordering or sign holds, the value does not",
    "differs": "neither holds",
    "not-run": "nothing was measured, for the reason given",
}
SOURCES = {
    "fidel": "Fidel",
    "agic": "AGIC",
    "thesis": "Ren's thesis: GRNN, FedBoosting, FedKL",
    "leakbench": "leakbench's own",
}


@dataclass(frozen=True)
class Line:
    """One row of the scorecard, ready to print."""

    id: str
    item: str
    metric: str
    condition: str
    convention: str
    published: str
    measured: str
    interval: str
    n: str
    verdict: str
    reason: str


@dataclass(frozen=True)
class Group:
    """The rows of one source: `judged` and `not_run` map an item to its lines; `reasons` counts why not."""

    key: str
    name: str
    counts: dict[str, int]
    judged: dict[str, list[Line]]
    not_run: dict[str, list[Line]]
    reasons: list[tuple[str, int]]

    @property
    def total(self) -> int:
        """Number of rows."""
        return sum(self.counts.values())


def lines(scorecard: pd.DataFrame) -> list[tuple[str, Line]]:
    """(source, line) for every row, in order. Raises ValueError for a verdict that is none of VERDICTS."""
    out = []
    for row in scorecard.to_dict("records"):
        if row["verdict"] not in VERDICTS:
            raise ValueError(f"{row['id']}: {row['verdict']!r} is no verdict")
        out.append((str(row["source"]), _line(row)))
    return out


def groups(rows: Iterable[tuple[str, Line]]) -> list[Group]:
    """Group lines by source, known sources first, and within a source by item in order of appearance."""
    by_source: dict[str, list[Line]] = {}
    for source, line in rows:
        by_source.setdefault(source, []).append(line)
    order = [*(s for s in SOURCES if s in by_source), *(s for s in by_source if s not in SOURCES)]
    return [_group(source, by_source[source]) for source in order]


def _group(source: str, rows: list[Line]) -> Group:
    judged: dict[str, list[Line]] = {}
    not_run: dict[str, list[Line]] = {}
    for line in rows:
        (not_run if line.verdict == "not-run" else judged).setdefault(line.item, []).append(line)
    found = Counter(line.verdict for line in rows)
    reasons = Counter(line.reason for line in rows if line.verdict == "not-run").most_common()
    counts = {verdict: found[verdict] for verdict in VERDICTS}
    return Group(source, SOURCES.get(source, source), counts, judged, not_run, reasons)


def _line(row: dict[Any, Any]) -> Line:
    text = {
        key: "" if pd.isna(row[key]) else str(row[key])
        for key in ("item", "condition", "convention", "reason")
    }
    return Line(
        id=str(row["id"]),
        metric=str(row["metric"]),
        published=number(row["published"]) if row["metric"] == "claim" else str(row["published"]),
        measured=number(row["measured"]),
        interval=interval(row["ci_low"], row["ci_high"]),
        n=count(row["n"] if not pd.isna(row["n"]) else ""),
        verdict=str(row["verdict"]),
        **text,
    )
