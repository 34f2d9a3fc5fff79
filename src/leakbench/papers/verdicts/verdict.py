"""The rule that turns a published statement and a measured sample into a verdict.

No verdict is made in any other place. docs/verdicts.md explains the rule to readers and has its operating
characteristic. The simulations that hold the rule to its promise are in
tests/unit/papers/test_verdict_simulation.py.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from leakbench.metrics.interval import wilson
from leakbench.papers.verdicts.sample import Sample, Statement, difference, median_interval, two_groups
from leakbench.papers.verdicts.schedule import PartialRun

Word = Literal["reproduced", "direction", "differs", "inconclusive", "not-run"]
Kind = Literal["", "success", "failure", "as-rival", "as-null"]

FEWEST = 5  # independent trials below which nothing is decided
SHORTEST = 0.5  # share of the published length below which nothing is decided
RESOLUTION = 2.0  # tolerances that half an interval may measure where a number is reproduced
FAR = 3.0  # tolerances from which on a number must not be called reproduced
CLEARLY = 2.0  # arms of its interval by which an order must hold where the value differs


@dataclass(frozen=True)
class Verdict:
    """One of the five words, and one sentence with the numbers that decide it."""

    word: Word
    reason: str
    # Whether there was enough to weigh: trials, length, an interval. Without them the word says nothing of
    # the statement, and other evidence may be asked.
    weighed: bool = True
    kind: Kind = ""  # what a `reproduced` is worth (`scorecard.kinds.KINDS`); empty for every other word


def decide(statement: Statement, sample: Sample) -> Verdict:
    """Judge one published number or claim, by the rule of docs/verdicts.md."""
    # What was not measured does not reach this function.
    if reason := _undecidable(statement, sample):
        return Verdict("inconclusive", reason, weighed=False)
    judged = _number(statement, sample) if statement.relation == "=" else _claim(statement, sample)
    unfinished = _unfinished(sample.length, sample.schedule)
    if unfinished and not _reads(statement, sample):
        return Verdict("inconclusive", unfinished, weighed=False)
    if unfinished:
        word: Word = "differs" if judged.word == "differs" else "inconclusive"
        return Verdict(word, f"{judged.reason}; {_EARLY.format(unfinished)}", weighed=word == "differs")
    if judged.word == "differs" and sample.open_end and _falls_short(statement, sample):
        return Verdict("inconclusive", f"{judged.reason}; {_OPEN_END}")
    of_one = ", on one network" if sample.networks == 1 else ""
    return replace(judged, reason=judged.reason + of_one)


def _reads(statement: Statement, sample: Sample) -> bool:
    """Return whether an attack succeeds that the statement says to fail, so that its length is no excuse."""
    if not statement.hidden:
        return False
    if statement.relation != "=":
        return _claim(statement, sample).word == "differs"
    worst = sample.low if statement.leak > 0 else sample.high
    tolerance = max(statement.tolerance, statement.rounding)
    if not statement.leak or statement.leak * (worst - statement.against) <= tolerance:
        return False
    if statement.threshold is None:
        return sample.beats_null is True
    return sample.beats_null is not False and statement.leak * (worst - statement.threshold) >= 0


def _falls_short(statement: Statement, sample: Sample) -> bool:
    """Return whether a statement that an attack succeeds is missed on the side of the attack's failure."""
    if not statement.success or statement.relation != "=":
        return statement.success
    return statement.monotone and statement.leak * (sample.value - statement.against) < 0


def decide_text(measured: str, published: str) -> Verdict:
    """Judge a fact or setting: **reproduced** when the texts are equal, else **differs**."""
    # Where the published text is a list `key=value; ...`, each of its cells must equal the measured cell of
    # that key; a key that the source leaves out is not compared. Numbers are equal by value, words regardless
    # of case and spaces.
    ours, theirs = _cells(measured), _cells(published)
    wrong = [key for key, value in theirs.items() if not _same(value, ours.get(key, ""))]
    if not wrong:
        return Verdict("reproduced", "the same as published")
    if list(theirs) == [""]:
        return Verdict("differs", f"ours is {measured or 'absent'}")
    return Verdict("differs", "; ".join(f"{key} is {ours.get(key) or 'absent'} in ours" for key in wrong))


def decide_outcome(
    successes: Sequence[bool], published: Literal["success", "failure"], length: float,
    schedule: PartialRun | None = None, open_end: bool = False, networks: int = 0,
) -> Verdict:  # fmt: skip
    """Judge a printed success or failure by whether each independent trial succeeded."""
    # The attack succeeds where Wilson's 95 % interval of the share of successes lies above 1/2, and fails
    # where it lies below. Length, schedule, open end and networks are those of a sample.
    n, hits = len(successes), sum(map(bool, successes))
    if reason := _too_few(n):
        return Verdict("inconclusive", reason, weighed=False)
    low, high = wilson(hits / n, n)
    counted = f"{hits} of {n} trials succeed (95 % interval of the share {_span(low, high)})"
    told = f"{counted}; the source prints {published}"
    if unfinished := _unfinished(length, schedule):
        if published == "failure" and low > 0.5:
            return Verdict("differs", f"{told}; {_EARLY.format(unfinished)}")
        return Verdict("inconclusive", unfinished, weighed=False)
    if low <= 0.5 <= high:
        return Verdict("inconclusive", f"{counted}, neither most nor few")
    of_one = ", on one network" if networks == 1 else ""
    if (low > 0.5) == (published == "success"):
        return Verdict("reproduced", told + of_one, kind=published)
    if open_end and published == "success":
        return Verdict("inconclusive", f"{told}; {_OPEN_END}")
    return Verdict("differs", told + of_one)


# A success refutes a printed failure after any share of the length.
_EARLY = "an attacker may stop early, so the success counts although this is {}"
_NULL = "but not surely better than the null baselines"
_ALL_OUTCOMES = "even with outcomes that the trials may have missed"
_UNSEEN = "but {} trials may miss a kind of outcome"
_OPEN_END = (
    "the source states no length, that of its code was run, and the search had not settled, so that more "
    "iterations might succeed"
)


def _too_few(n: int) -> str:
    if n >= FEWEST:
        return ""
    return f"{n} independent trial{'s' * (n != 1)}, of which at least {FEWEST} are needed"


def _unfinished(length: float, schedule: PartialRun | None) -> str:
    if not length >= SHORTEST:
        return (
            f"{100 * length:.3g} % of the published length, of which at least {100 * SHORTEST:g} % are needed"
        )
    if schedule and schedule.ahead:
        falls = " and ".join(f"{fall:,}" for fall in schedule.ahead)
        return (
            f"the first {schedule.ran:,} of {schedule.full:,} iterations; the step size falls again at "
            f"{falls}, so nothing is decided before the whole schedule has run"
        )
    return ""


def _undecidable(statement: Statement, sample: Sample) -> str:
    """Return why nothing can be decided after any length, or an empty text."""
    if math.isnan(sample.value) or math.isnan(statement.against):
        return "the measured quantity is undefined" if math.isnan(sample.value) else "no number is printed"
    if reason := _too_few(sample.n):
        return reason
    if math.isnan(sample.low) or math.isnan(sample.high):
        return f"measured {_show(sample.value)}, without an interval"
    return ""


def _number(statement: Statement, sample: Sample) -> Verdict:
    """Judge a printed number by the mean, and where outcomes are of two kinds by the median too."""
    judged = _by_mean(statement, sample)
    tolerance = max(statement.tolerance, statement.rounding)
    # Several networks have too few units for a median, and a share has an interval of its own.
    if sample.networks > 1 or set(sample.values) <= set(statement.bounds):
        return judged
    found = two_groups(sample.values, FAR * tolerance)
    if found is None or judged.word == "reproduced":
        return judged
    median, low, high = median_interval(sample.values)
    told = "{} of {} trials lie near {} and the others near {}".format(
        len(found[1]), len(sample.values), *(_show(sorted(each)[len(each) // 2]) for each in found[::-1])
    )
    if math.isnan(low):
        few = f"{judged.reason}; {told}, and so few trials say nothing of the median"
        return Verdict("inconclusive", few) if judged.word == "differs" else judged
    typical = _by_mean(statement, replace(sample, value=median, low=low, high=high))
    if typical.word == "reproduced":
        return replace(typical, reason=f"the median is {typical.reason}; {told}")
    both = f"{judged.reason}; {told}; of the median {typical.reason}"
    if judged.word == "differs" != typical.word:
        return Verdict("inconclusive", both)
    return replace(judged, reason=both)


def _by_mean(statement: Statement, sample: Sample) -> Verdict:
    tolerance = max(statement.tolerance, statement.rounding)
    value, low, high = difference(statement, sample, sample.ends)
    trusted = abs(value) <= tolerance and not sample.by_student
    sure = difference(statement, sample, sample.ends if trusted else sample.surely)
    numbers = (
        f"{_show(sample.value)} against {_show(statement.against)}, "
        f"a difference of {_show(value)} ({_span(low, high)})"
    )
    beaten = statement.success and statement.monotone and sample.beats_null is False
    if _near(value, low, high, sure, tolerance):
        if beaten:
            return Verdict("inconclusive", f"{numbers}, {_NULL}")
        nulls = [null for null in sample.nulls if abs(null - statement.against) <= tolerance]
        if not statement.monotone and (nulls or not sample.nulls):
            said = f"a null baseline gives {_show(nulls[0])}" if nulls else "no null baseline is known"
            return Verdict(
                "inconclusive", f"{numbers}: agrees, but the unit is not monotone in quality, and {said}"
            )
        closeness = f"within the tolerance of {_show(tolerance)}"
        return Verdict(
            "reproduced",
            f"{numbers}: {closeness if abs(value) <= tolerance else 'the interval contains 0'}",
            kind=_kind(statement, bool(nulls), tolerance),
        )
    _, least, most = difference(statement, sample, sample.widened(statement.bounds))
    differs = least > tolerance or most < -tolerance
    contrary = not _same_outcome(statement, sample) or _reads(statement, replace(sample, beats_null=True))
    arms = 0.0 if beaten or contrary else _ordered(statement, sample)
    if arms > 1 and sample.ordering is not None and not _near(value, low, high, sure, 2 * tolerance):
        order = f"the printed order holds, by {_show(sample.ordering.value)}"
        order += f" ({_span(sample.ordering.low, sample.ordering.high)}) over {sample.ordering.n} pairs"
        if differs and arms <= CLEARLY:
            return Verdict("inconclusive", f"{numbers}, too far; {order}, too narrowly to outweigh that")
        return Verdict("direction", f"{numbers}; {order}")
    if differs:
        return Verdict("differs", f"{numbers}: beyond the tolerance of {_show(tolerance)}, {_ALL_OUTCOMES}")
    if low > tolerance or high < -tolerance:
        why = f"beyond the tolerance of {_show(tolerance)}, {_UNSEEN.format(sample.n)}"
    elif (high - low) / 2 > RESOLUTION * tolerance:
        why = f"too wide for the tolerance of {_show(tolerance)}"
    else:
        why = f"neither surely within nor surely beyond the tolerance of {_show(tolerance)}"
    return Verdict("inconclusive", f"{numbers}: {why}")


def _kind(statement: Statement, as_null: bool, tolerance: float) -> Kind:
    if as_null or statement.trivial:
        return "as-null"
    if statement.hidden:
        return "failure"
    near = any(abs(rival - statement.against) <= tolerance for rival in statement.rivals)
    return "as-rival" if near else "success"


def _same_outcome(statement: Statement, sample: Sample) -> bool:
    """Return whether the value and the print lie on the same side of the stated threshold of success."""
    if statement.threshold is None:
        return True
    return (sample.value >= statement.threshold) == (statement.against >= statement.threshold)


def _claim(statement: Statement, sample: Sample) -> Verdict:
    # A claim of at most t about x is one of at least -t about -x.
    sign = 1 if statement.relation[0] == ">" else -1
    strict = statement.relation in (">", "<")
    _, low, high = difference(statement, sample, sample.ends)
    _, least, most = difference(statement, sample, sample.doubted(statement.bounds))
    if sign < 0:
        low, high, least, most = -high, -low, -most, -least
    test = f"{statement.relation} {_show(statement.against)}"
    numbers = f"measured {_show(sample.value)} ({_span(sample.low, sample.high)})"
    if low > 0 or (low == 0 and not strict):
        if statement.success and sample.beats_null is False:
            return Verdict("inconclusive", f"{test}: {numbers}, {_NULL}")
        told = f"{test} through the whole interval: {numbers}"
        return Verdict("reproduced", told, kind=_kind(statement, False, 0.0))
    if most < 0 or (most == 0 and strict):
        return Verdict("differs", f"not {test}: {numbers}, {_ALL_OUTCOMES}")
    if high < 0:
        return Verdict("inconclusive", f"not {test}: {numbers}, {_UNSEEN.format(sample.n)}")
    return Verdict("inconclusive", f"{test} lies inside the interval: {numbers}")


def _ordered(statement: Statement, sample: Sample) -> float:
    """Return how far the difference lies on the printed side of 0, in arms of its interval."""
    sign, ordering = statement.sign, sample.ordering
    if not sign or ordering is None or not ordering.equal_budget or not statement.monotone:
        return 0.0
    if _too_few(ordering.n) or _unfinished(ordering.length, ordering.schedule):
        return 0.0
    value = sign * ordering.value
    arm = value - (ordering.low if sign > 0 else -ordering.high)
    if value <= 0 or math.isnan(arm):
        return 0.0
    return value / arm if arm > 0 else math.inf


def _near(value: float, low: float, high: float, sure: tuple[float, float, float], tolerance: float) -> bool:
    """Return whether a difference is reproduced at a tolerance, by its 95 % interval and its surer one."""
    return (
        (abs(value) <= tolerance or low <= 0 <= high)
        and (high - low) / 2 <= RESOLUTION * tolerance
        and -FAR * tolerance <= min(low, sure[1])
        and max(high, sure[2]) <= FAR * tolerance
    )


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


def _span(low: float, high: float) -> str:
    return f"{_show(low)} to {_show(high)}"
