"""The scorecard as the page shows it: counts of results, then rows by work and item.

Other classes and what was not run stand apart.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from leakbench.report.numbers import count, interval, number

VERDICTS = {
    "reproduced": "the number lies within its tolerance, or the claim holds through the whole interval",
    "direction": "the number does not reproduce, but the ordering that it belongs to holds",
    "differs": "the whole interval lies beyond the tolerance, or the claim fails through all of it",
    "inconclusive": "measured, but too little to tell: few trials, a short run, or a wide interval",
    "not-run": "nothing was measured, for the reason given",
}
# Counts of the headline are of results alone; the rest is shown apart.
RESULT = "result"
CLASSES = {
    "setting": "Settings: what a paper states of its set-up, beside our configuration",
    "arithmetic": "Arithmetic: whether printed numbers follow from each other",
    "doubt": "Doubts and expectations of our own: reproduced means that the doubt holds",
}


# One row of the scorecard, ready to print: what the page calls it -> text.
Line = dict[str, str]


@dataclass(frozen=True)
class Group:
    """The results of one work, or all rows of another class.

    judged, not_run: item -> its lines. reasons: why rows were not run, and how often.
    """

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


def lines(scorecard: pd.DataFrame) -> list[tuple[str, str, Line]]:
    """Return (work, class, line) of every row, in order. Raises ValueError for a word not in VERDICTS."""
    out = []
    for row in scorecard.to_dict("records"):
        if row["verdict"] not in VERDICTS:
            raise ValueError(f"{row['id']}: {row['verdict']!r} is no verdict")
        out.append((str(row["work"]), str(row["class"]), _line(row)))
    return out


def groups(rows: Iterable[tuple[str, str, Line]], titles: Mapping[str, str]) -> list[Group]:
    """Group results by work, in order of appearance, then all other rows by class; within a group by item.

    titles: work -> what it is called.
    """
    found: dict[str, list[Line]] = {}
    for work, label, line in rows:
        found.setdefault(work if label == RESULT else f"class-{label}", []).append(line)
    apart = [f"class-{label}" for label in CLASSES]
    order = [*(key for key in found if key not in apart), *(key for key in apart if key in found)]
    names = {**titles, **{f"class-{label}": words for label, words in CLASSES.items()}}
    return [_group(key, names.get(key, key), found[key]) for key in order]


def _group(key: str, name: str, rows: list[Line]) -> Group:
    judged: dict[str, list[Line]] = {}
    not_run: dict[str, list[Line]] = {}
    for line in rows:
        (not_run if line["verdict"] == "not-run" else judged).setdefault(line["item"], []).append(line)
    found = Counter(line["verdict"] for line in rows)
    reasons = Counter(line["reason"] for line in rows if line["verdict"] == "not-run").most_common()
    counts = {verdict: found[verdict] for verdict in VERDICTS}
    return Group(key, name, counts, judged, not_run, reasons)


def _line(row: dict[Any, Any]) -> Line:
    row = {key: "" if pd.isna(value) else value for key, value in row.items()}
    origin = ", ".join(str(row[key]) for key in ("scale", "device", "commit") if row[key] != "")
    if row["here"] != "":
        meets = {"yes": ", which agrees", "no": ", which does not agree"}.get(str(row["agrees"]), "")
        origin += f"; this run alone {number(row['here'])} (n = {count(row['here_n'])}){meets}"
    same = ("id", "item", "metric", "condition", "convention", "verdict", "reason")
    return {
        **{key: str(row[key]) for key in same},
        "published": number(row["published"]) if row["metric"] == "claim" else str(row["published"]),
        "measured": number(row["measured"]),
        "interval": interval(row["ci_low"], row["ci_high"]),
        "n": count(row["n"]),
        "origin": origin,
    }
