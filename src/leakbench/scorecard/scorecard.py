"""Joins published rows and findings into the scorecard."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from leakbench.scorecard.measure import Measured
from leakbench.scorecard.verdict import Finding, Relation, Verdict, decide

COLUMNS = [
    "id", "source", "item", "condition", "metric", "convention", "published",
    "measured", "ci_low", "ci_high", "n", "verdict", "reason",
]  # fmt: skip
NOT_IMPLEMENTED = "not implemented"
RELATIONS: dict[str, Relation] = {"": "=", ">": ">", "<": "<="}


def scorecard(
    published: pd.DataFrame, findings: Mapping[str, Finding], reasons: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """One row for every published number, fact and claim: the columns COLUMNS, the order of `published`.

    published: the frame of `read_published`. findings: by id; whatever has none is not-run with the reason
    that `reasons` gives for the longest matching prefix of its id in whole dotted parts
    ("thesis.table-5-6", "agic"), else "not implemented". `measured`, `ci_low`, `ci_high` are in the
    published unit; `measured` is text for facts; all are empty for not-run.

    Raises ValueError for a finding whose id is not published, or whose metric convention is not the
    published one.
    """
    unknown = sorted(set(findings) - set(published["id"]))
    if unknown:
        raise ValueError(f"findings without a published row: {', '.join(unknown)}")
    rows = []
    for row in published.to_dict("records"):
        finding = findings.get(row["id"]) or Finding(None, absent=_reason(row["id"], reasons or {}))
        verdict = _judge(row, finding)
        numbers: dict[str, object] = {"measured": None, "ci_low": None, "ci_high": None, "n": None}
        if isinstance(finding.measured, Measured):
            m = finding.measured
            numbers = {"measured": m.value, "ci_low": m.low, "ci_high": m.high, "n": m.n}
        elif finding.measured is not None:
            numbers["measured"] = finding.measured
        shared = {key: row[key] for key in COLUMNS[:7]}
        rows.append(shared | numbers | {"verdict": verdict.word, "reason": verdict.reason})
    frame = pd.DataFrame(rows, columns=COLUMNS)
    return frame.astype({"ci_low": "float64", "ci_high": "float64", "n": "Int64"})


def _judge(row: Mapping[Any, Any], finding: Finding) -> Verdict:
    if isinstance(finding.measured, Measured) and row["convention"] not in ("", finding.convention):
        raise ValueError(
            f"{row['id']}: the measured number is in the {finding.convention} convention, "
            f"the published one in the {row['convention']} one"
        )
    if isinstance(finding.measured, str):
        against: float | str = str(row["published"])
    else:
        against = finding.against if finding.against is not None else row["value"]
    # A published number is only as exact as it is printed; the threshold of a claim is exact.
    rounding = row["tolerance"] if finding.against is None else 0.0
    verdict = decide(
        finding.measured,
        against,
        finding.relation or RELATIONS[str(row["bound"])],
        tolerance=max(finding.tolerance, rounding),
        direction_holds=finding.direction_holds,
        absent=finding.absent,
    )
    return Verdict(verdict.word, f"{verdict.reason} ({finding.note})" if finding.note else verdict.reason)


def _reason(key: str, reasons: Mapping[str, str]) -> str:
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        if reason := reasons.get(".".join(parts[:length])):
            return reason
    return NOT_IMPLEMENTED
