"""The scorecard as the page shows it: rows for its table, and counts by work and word."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from leakbench.base.artefacts import Facts
from leakbench.papers.scorecard.kinds import KINDS
from leakbench.results.report.numbers import count, interval, number

VERDICTS = {
    "reproduced": "the number lies within its tolerance, or the claim holds through the whole interval",
    "direction": "the number does not reproduce, but the ordering that it belongs to holds",
    "differs": "the whole interval lies beyond the tolerance, or the claim fails through all of it",
    "inconclusive": "measured, but too little to tell: few trials, a short run, or a wide interval",
    "not-run": "nothing was measured, for the reason given",
}
# The headline counts rows of this class alone; the other classes are shown apart.
RESULT = "result"
CLASSES = {
    "setting": "Settings: what a paper states of its set-up, beside our configuration",
    "arithmetic": "Arithmetic: whether printed numbers follow from each other",
    "doubt": "Doubts and expectations of our own: reproduced means that the doubt holds",
}
# The columns of the page's table: key of a line -> title; those in HIDDEN serve only search and filters.
COLUMNS = {
    "item": "Paper and item", "what": "Quantity", "published": "Published",
    "measured": "Measured [95 % interval]", "n": "n", "word": "Verdict", "reason": "Reason",
    "convention": "Convention", "kind": "Kind", "class": "Class", "scale": "Scale", "work": "Paper",
    "condition": "Condition", "interval": "Interval", "origin": "Origin", "examined": "Why it differs",
    "mine": "This run", "id": "Row",
}  # fmt: skip
HIDDEN = (
    "convention", "kind", "class", "scale", "work", "condition", "interval", "origin", "examined", "mine",
    "id",
)  # fmt: skip
# The columns of the scorecard that a line repeats as they are.
SAME = (
    "id", "work", "class", "item", "condition", "convention", "reason", "kind", "scale", "headline", "seeds",
    "examined",
)  # fmt: skip
NUMBERS = ("measured", "n")
# The columns that are sorted by size; text comes after all numbers.
BY_SIZE = ("published", *NUMBERS)


# One row of the scorecard, ready to print: key -> text.
CardLine = dict[str, str]


@dataclass(frozen=True)
class Tally:
    """The results of one work, or all rows of another class."""

    key: str  # the name of the work, or "class-" and the name of the class
    name: str
    counts: dict[str, int]  # verdict -> number of rows
    telling: int  # number of reproduced rows of the first kind (`papers.scorecard.kinds`)
    reasons: list[tuple[str, int]]  # why rows were not run, and how often, the most frequent reason first

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def lines(scorecard: pd.DataFrame) -> list[CardLine]:
    unknown = scorecard[~scorecard["verdict"].isin(list(VERDICTS))]
    for row in unknown.to_dict("records"):
        raise ValueError(f"{row['id']}: {row['verdict']!r} is no verdict")
    return [_line(row) for row in scorecard.to_dict("records")]


def cells(rows: Iterable[CardLine]) -> list[list[str]]:
    return [[row[key] for key in COLUMNS] for row in rows]


def columns() -> list[Facts]:
    """Return the facts about each column that the page's script needs."""
    return [
        {
            "key": key, "title": title, "visible": key not in HIDDEN, "number": key in NUMBERS,
            "by_size": key in BY_SIZE,
        }
        for key, title in COLUMNS.items()
    ]  # fmt: skip


def groups(rows: Sequence[CardLine], titles: Mapping[str, str], core: Collection[str] = ()) -> list[Tally]:
    """Group results by work, the core works first, then all other rows by class."""
    found: dict[str, list[CardLine]] = {}
    for line in rows:
        key = line["work"] if line["class"] == RESULT else f"class-{line['class']}"
        found.setdefault(key, []).append(line)
    apart = {f"class-{label}": words for label, words in CLASSES.items()}
    own = sorted((key for key in found if key not in apart), key=lambda key: key not in core)
    names = {**titles, **apart}
    return [_group(k, names.get(k, k), found[k]) for k in (*own, *(key for key in apart if key in found))]


def _group(key: str, name: str, rows: list[CardLine]) -> Tally:
    words = Counter(line["word"] for line in rows)
    reasons = Counter(line["reason"] for line in rows if line["word"] == "not-run")
    telling = sum(line["kind"] == next(iter(KINDS)) for line in rows)
    return Tally(key, name, {verdict: words[verdict] for verdict in VERDICTS}, telling, reasons.most_common())


def _line(row: dict[Any, Any]) -> CardLine:
    row = {key: "" if pd.isna(value) else value for key, value in row.items()}
    origin = ", ".join(str(row[key]) for key in ("scale", "device", "commit") if row[key] != "")
    if row["here"] not in ("", row["measured"]):
        meets = {"yes": ", which agrees", "no": ", which does not agree"}.get(str(row["agrees"]), "")
        origin += f"; this run alone {number(row['here'])} (n = {count(row['here_n'])}){meets}"
    return {
        **{key: str(row[key]) for key in SAME},
        "what": str(row["metric"]).replace("_", " "),
        "word": str(row["verdict"]),
        "published": number(row["published"]) if row["metric"] == "claim" else str(row["published"]),
        "measured": number(row["measured"]),
        "interval": interval(row["ci_low"], row["ci_high"]),
        "headline_interval": interval(row["ci_low"], row["ci_high"], percent="%" in str(row["headline"])),
        "n": count(row["n"]),
        "origin": origin,
        "mine": "has a value of this run" if row["here"] != "" else "",
        "agrees": str(row["agrees"]),
    }
