"""docs/findings.md: what papers/findings.yaml tells, with the numbers of the recorded tables."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

import pandas as pd
from pydantic import model_validator

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, read_yaml, suggest, validated
from leakbench.papers.printed import Columns
from leakbench.papers.scorecard.evidence import ScaleEvidence
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import MANUAL, Claim, Claims, Paper, Work

# A number of a sentence: its name and how it is written, as in {lock-opened:.2f}.
NUMBER = re.compile(r"\{([A-Za-z0-9.-]+)(?::([^}]*))?\}")
# The longest line of a page.
WIDTH = 140


class Number(Strict):
    """A number beside the claim, such as a control."""

    read: Columns  # columns that every at() of the quantity shares
    quantity: str = "at()"


class Finding(Strict):
    """One entry of papers/findings.yaml."""

    title: str  # the finding in one sentence
    claim: str  # id of the row of the scorecard that decides it
    says: str  # sentences, with {claim:.2f} and {name:.2f} for numbers
    numbers: dict[str, Number] = {}  # what `says` names beside the claim
    because: str = ""  # sentences about a cause
    tested: str = ""  # id of the row of the scorecard that tests the cause
    guess: bool = False  # nothing tests the cause

    @model_validator(mode="after")
    def _cause(self) -> "Finding":
        if (bool(self.tested) + self.guess) != bool(self.because):
            raise ValueError(
                "because: a cause has either `tested`, the claim that tests it, or `guess: true` (add one)"
            )
        return self


class Findings(Strict):
    introduction: str
    findings: list[Finding]


def findings(path: Path, works: Sequence[Work], scales: Sequence[ScaleEvidence]) -> str:
    """Return the page of findings, with the numbers of the recorded tables; `scales`: the longest first."""
    told: Findings = validated(Findings, read_yaml(path), f"{path}: ", MANUAL)
    numbers = {
        f"{place}.{name}": number
        for place, finding in enumerate(told.findings)
        for name, number in finding.numbers.items()
    }
    sources = {key.partition(".")[0] for each in told.findings for key in (each.claim, each.tested)}
    asked = [work for work in works if work.paper.source in sources]
    claims = Card(asked, scales, scales[-1]).frame().set_index("id")
    beside = Card([_work(path, numbers)], scales, scales[-1]).frame().set_index("id")
    pages = [
        _told(f"{path}: findings[{place}]", finding, claims, beside.filter(regex=rf"^{place}\.", axis=0))
        for place, finding in enumerate(told.findings)
    ]
    return "\n".join(["# Findings\n", _paragraphs(told.introduction), *pages])


def _work(path: Path, numbers: Mapping[str, Number]) -> Work:
    """Return a work whose claims are the numbers, so that they are read as every other number is."""
    paper = Paper(source="", title="", authors="", year=0, link="", claims="", threat_model="")
    each = [
        Claim(id=name, item="", claim=name, read=number.read, quantity=number.quantity)
        for name, number in numbers.items()
    ]
    return Work("findings", path.parent, paper, {}, {}, {}, Claims(claims=each), None)


def _told(where: str, finding: Finding, claims: pd.DataFrame, beside: pd.DataFrame) -> str:
    rows = {str(name).partition(".")[2]: row for name, row in beside.iterrows()}
    for key, name in (("claim", finding.claim), ("tested", finding.tested)):
        if name and name not in claims.index:
            near = suggest(name, claims.index)
            raise UserError(f"{where}: {key}: the scorecard has no row {name} ({near})")
    rows["claim"] = next(row for name, row in claims.iterrows() if name == finding.claim)

    def number(found: re.Match[str]) -> str:
        name, form = found[1], found[2] or "g"
        if name not in rows:
            raise UserError(f"{where}: says: no number is called {name} ({suggest(name, rows)})")
        return _written(where, name, rows[name], form)

    text = _paragraphs(NUMBER.sub(number, finding.says))
    if finding.because:
        mark = f"Why (tested by `{finding.tested}`):" if finding.tested else "Why (a guess):"
        text += "\n" + _paragraphs(f"*{mark}* {NUMBER.sub(number, finding.because)}")
    row = rows["claim"]
    networks = {0: "", 1: "one network, "}.get(int(row["networks"] or 0), f"{row['networks']} networks, ")
    seeds = f"seed{'s' if ' ' in str(row['seeds']) else ''} {row['seeds']}"
    text += "\n" + _paragraphs(
        f"*`{finding.claim}`: {row['verdict']}. Scale {row['scale']}, {networks}{seeds}, n = {row['n']}.*"
    )
    return f"## {finding.title}\n\n{text}"


def _written(where: str, name: str, row: "pd.Series[Any]", form: str) -> str:
    """Return a number and its interval, such as 0.83 (0.64 to 1.00)."""
    value, low, high = (pd.to_numeric(row[key], errors="coerce") for key in ("measured", "ci_low", "ci_high"))
    if pd.isna(value):
        raise UserError(f"{where}: {name}: no recorded table has this number: {row['reason']} (mend `read`)")
    value, low, high = (format(each + 0.0, form).replace("%", " %") for each in (value, low, high))
    return value if low == high else f"{value} ({low} to {high})"


def _paragraphs(text: str) -> str:
    wrapper = TextWrapper(WIDTH, break_on_hyphens=False, break_long_words=False)
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
    return "\n\n".join(map(wrapper.fill, paragraphs)) + "\n"
