"""The rule that turns a published statement and a measured quantity into a verdict."""

import math
import operator
import re
from dataclasses import dataclass
from typing import Literal

from leakbench.scorecard.measure import Measured

Relation = Literal["=", ">", ">=", "<", "<="]
Word = Literal["reproduced", "direction", "differs", "not-run"]

COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


@dataclass(frozen=True)
class Verdict:
    """One of the four words, and one sentence that says why."""

    word: Word
    reason: str


@dataclass(frozen=True)
class Finding:
    """What we measured for one published number or claim, before it is judged.

    measured: a quantity with its interval, a text (for facts), or None when nothing was measured; `absent`
    then says why.
    against, relation: the threshold of a claim, e.g. 0 and ">". None and "" leave both to the published
        row: its number and its bound.
    tolerance: distance in the published unit within which a number still counts as reproduced; fixed before
    measuring.
    direction_holds: whether the ordering or sign that a number belongs to holds; None when it belongs to
    none.
    convention: the metric convention of `measured`; the scorecard refuses to compare two different ones.
    note: what explains or limits the comparison; appended to the reason.
    """

    measured: Measured | str | None
    against: float | None = None
    relation: Relation | Literal[""] = ""
    tolerance: float = 0.0
    direction_holds: bool | None = None
    convention: Literal["standard", "published"] = "standard"
    note: str = ""
    absent: str = ""


def decide(
    measured: Measured | str | None,
    against: float | str,
    relation: Relation = "=",
    *,
    tolerance: float = 0.0,
    direction_holds: bool | None = None,
    absent: str = "",
) -> Verdict:
    """Judge one published statement. This is the only place where a verdict is made.

    The rule, first match wins:

    1. Nothing was measured (`measured` is None): **not-run**, for the reason `absent`.
    2. A fact (`measured` is text): **reproduced** when it equals `against`, else **differs**. When the
       published text is a list `key=value; ...`, each of its cells must equal the measured cell of that
       key; what the source leaves out is not compared. Numbers are equal by value, words regardless of
       case. A fact has no direction.
    3. The measured value is NaN, so the quantity is undefined: **differs**.
    4. A number (`relation` "="): **reproduced** when `against` lies inside the measured interval, or when
       the measured value is no further than `tolerance` from it. Else **direction** when `direction_holds`
       is True: the ordering or sign that the number belongs to holds. Else **differs**.
    5. A claim or a bound (any inequality): **reproduced** when the whole measured interval satisfies it;
       **direction** when only the measured value does, or when `direction_holds` is True; else **differs**.
       `tolerance` is not used.

    Raises ValueError when there is no number to compare a measured quantity with.
    """
    if measured is None:
        return Verdict("not-run", absent or "not implemented")
    if isinstance(measured, str):
        return _fact(measured, str(against))
    if isinstance(against, str) or math.isnan(against):
        raise ValueError(f"a measured quantity cannot be compared with {against!r}")
    if math.isnan(measured.value):
        return Verdict("differs", "the measured quantity is undefined")
    # One run, or a number that is no sample: nothing tells how far it would vary.
    alone = measured.low == measured.high
    value, span = _show(measured.value), f"{_show(measured.low)} to {_show(measured.high)}"
    if relation == "=":
        distance = abs(measured.value - against)
        inside = "the same number" if alone else f"{_show(against)} lies inside the interval {span}"
        if measured.low <= against <= measured.high:
            return Verdict("reproduced", inside)
        if distance <= tolerance:
            return Verdict(
                "reproduced", f"within the stated tolerance of {_show(tolerance)} of {_show(against)}"
            )
        miss = f"{_show(against)} is {_show(distance)} from the measured value, which has no interval"
        if not alone:
            miss = f"{_show(against)} lies outside the interval {span}, {_show(distance)} from the measured value"
        if direction_holds:
            return Verdict("direction", f"{miss}; the ordering that it belongs to holds")
        return Verdict("differs", miss + ("; the ordering fails too" if direction_holds is False else ""))
    holds = COMPARE[relation]
    test = f"{relation} {_show(against)}"
    within = f": {value}, without an interval" if alone else f" through the whole interval {span}"
    spread = "without an interval" if alone else f"interval {span}"
    if holds(measured.low, against) and holds(measured.high, against):
        return Verdict("reproduced", test + within)
    if holds(measured.value, against):
        return Verdict(
            "direction", f"{test} for the measured value but not through the whole interval {span}"
        )
    if direction_holds:
        return Verdict("direction", f"not {test}; the ordering that it belongs to holds")
    return Verdict("differs", f"not {test}: measured {value}, {spread}")


def _fact(measured: str, published: str) -> Verdict:
    ours, theirs = _cells(measured), _cells(published)
    wrong = [key for key, value in theirs.items() if not _same(value, ours.get(key, ""))]
    if not wrong:
        return Verdict("reproduced", "the same as published")
    if list(theirs) == [""]:
        return Verdict("differs", f"ours is {measured or 'absent'}")
    return Verdict("differs", "; ".join(f"{key} is {ours.get(key) or 'absent'} in ours" for key in wrong))


def _cells(text: str) -> dict[str, str]:
    if "=" not in text:
        return {"": text}
    return {key.strip(): value.strip() for key, _, value in (cell.partition("=") for cell in text.split(";"))}


def _same(a: str, b: str) -> bool:
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-9)
    except ValueError:
        return re.sub(r"\s+", "", a).casefold() == re.sub(r"\s+", "", b).casefold()


def _show(number: float) -> str:
    return f"{number:.4g}"
