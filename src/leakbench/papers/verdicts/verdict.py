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

from leakbench.metrics.interval import BOOTSTRAP_FROM, wilson
from leakbench.papers.verdicts.groups import median_interval, two_groups
from leakbench.papers.verdicts.schedule import Schedule

Word = Literal["reproduced", "direction", "differs", "inconclusive", "not-run"]
Relation = Literal["=", ">", ">=", "<", "<="]
# What a `reproduced` is worth; see `Verdict.kind`.
Kind = Literal["", "success", "failure", "as-rival", "as-null"]

FEWEST = 5  # independent trials below which nothing is decided
SHORTEST = 0.5  # share of the published length below which nothing is decided
RESOLUTION = 2.0  # tolerances that half an interval may measure where a number is reproduced
FAR = 3.0  # tolerances from which on a number must not be called reproduced
CLEARLY = 2.0  # arms of its interval by which an order must hold where the value differs
SURE = 0.99  # level at which an interval must stay nearer than FAR; 0.95 fails for skewed samples
UNSEEN = 0.05  # chance with which outcomes of the share `unseen(n)` stay out of a sample of n
# Where a quantity has no bound, an unseen outcome lies this many deviations beyond the interval.
BEYOND = 4.0
# The number of trials of a quantity that is no sample: counted in an architecture, or computed from a
# configuration.
EXACT = 10**9


@dataclass(frozen=True)
class Statement:
    """What a source says of one number: a number that it prints (relation "="), or a claim.

    relation: "=" for a printed number, the inequality of a claim.
    against: the printed number, or the threshold of a claim.
    rounding: half a unit of the last printed place; 0 for a claim.
    std: the printed standard deviation, None where it is not printed.
    n: the printed number of trials, None where it is not printed.
    tolerance: distance within which a number counts as reproduced, in the printed unit; see `tolerances`.
    bounds: the range of the quantity, infinite where it has none.
    monotone: whether a larger number always says the same about quality. False for 8-bit wrap-around PSNR, in
    which two numbers may differ, but agree only by chance where a null baseline has the number too.
    success: whether the statement says that an attack succeeds; the attack must then beat the null baselines.
    hidden: whether the statement says that an attack fails. A success after any length then refutes it.
    leak: 1 where a larger number of the metric says that more was read, -1 where a smaller one does, 0 where
    neither does.
    threshold: the number of the metric from which an attack counts as successful, None where none is stated.
    sign: the printed sign (-1, 1) of this row minus the row that it is ordered against; 0 where there is no
    such row.
    rivals: the numbers that the source prints for the other methods in the same condition.
    trivial: whether the statement holds by construction.
    """

    relation: Relation
    against: float
    rounding: float = 0.0
    std: float | None = None
    n: int | None = None
    tolerance: float = 0.0
    bounds: tuple[float, float] = (-math.inf, math.inf)
    monotone: bool = True
    success: bool = False
    hidden: bool = False
    leak: Literal[-1, 0, 1] = 0
    threshold: float | None = None
    sign: Literal[-1, 0, 1] = 0
    rivals: tuple[float, ...] = ()
    trivial: bool = False


@dataclass(frozen=True)
class Ordering:
    """The paired difference of a row to the row that the print orders it against.

    value: the mean difference.
    low: the lower end of its 95 % interval, NaN where there is none.
    high: the upper end of its 95 % interval, NaN where there is none.
    n: independent pairs.
    equal_budget: whether both sides ran with equal budgets.
    length: the shorter of both shares of the published length.
    schedule: as of a sample, of the side whose step size falls again.
    """

    value: float
    low: float
    high: float
    n: int
    equal_budget: bool
    length: float = 1.0
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Sample:
    """What was measured for a statement, in the printed unit.

    value: the mean.
    low: the lower end of its 95 % interval (`metrics.interval`), NaN where there is none.
    high: the upper end of its 95 % interval, NaN where there is none.
    n: independent trials; `EXACT` for a quantity that is no sample, whose low and high are its value.
    length: share of the published length that ran; 1 where a length has no meaning or the run is shown to
    have settled.
    beats_null: whether the attack is better than the null baselines; None where there is none to compare
    with.
    ordering: the difference to the row that the print orders this one against, None where there is none.
    schedule: how far the run came in the schedule of its step size; None where it has none, or where the run
    is shown to have settled.
    open_end: whether the source states no length, and the run is not shown to have settled; `length` is then
    the share of the length in the authors' code.
    nulls: what the null baselines give.
    values: the independent trials; empty where they are not kept.
    networks: the networks on which the trials were measured; 0 where that has no meaning. The interval of
    several networks must count networks, and that of one is of this network.
    """

    value: float
    low: float
    high: float
    n: int
    length: float = 1.0
    beats_null: bool | None = None
    ordering: Ordering | None = None
    schedule: Schedule | None = None
    open_end: bool = False
    nulls: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    networks: int = 0

    @property
    def units(self) -> int:
        """The number of units that the interval counts: networks where there are several, else trials."""
        return self.networks if self.networks > 1 else self.n


@dataclass(frozen=True)
class Verdict:
    """One of the five words, and one sentence with the numbers that decide it.

    word: the word.
    reason: the sentence.
    weighed: whether there was enough to weigh: trials, length, an interval. Without them the word says
    nothing of the statement, and other evidence may be asked.
    kind: what a `reproduced` is worth. "success": neither a null baseline nor a rival's printed number would
    give it. "failure": the source prints a failure, and the attack fails. "as-rival": a rival's printed
    number lies within the tolerance too. "as-null": a null baseline does, or the statement is true by
    construction. Empty for every other word.
    """

    word: Word
    reason: str
    weighed: bool = True
    kind: Kind = ""


def unseen(n: int) -> float:
    """Return the share w of a kind of outcome that n trials miss with a chance of 5 %: 1 - 0.05^(1/n)."""
    return 1 - UNSEEN ** (1 / n)


def decide(statement: Statement, sample: Sample) -> Verdict:
    """Judge one published number or claim.

    statement: the published number or claim.
    sample: what was measured for it.

    What was measured is **inconclusive** unless the quantity is defined and has an interval, there are at
    least 5 independent trials, and the run is at least half as long as the published one. A run whose step
    size falls again after its end is never half as long, unless it has settled. What was not measured is
    **not-run**, and does not reach this function.

    A number: d is measured - published with its 95 % interval, h half its width. The interval includes, added
    in quadrature, the rounding of the print, and the published mean's own sampling error where deviation and
    number of trials are printed. tol is the tolerance, or the rounding where that is larger.

    1. **reproduced**: |d| <= tol or the interval contains 0; h <= 2 tol; and the interval of 99 % lies within
       ±3 tol. The interval of 95 % is enough where |d| <= tol and it is Wilson's or the bootstrap's, which
       are skewed as the sample is. Student's misses the mean of a skewed sample too often. In a unit that is
       not monotone, every null baseline must also lie further than tol from the print.
    2. **direction**: the value is not near reproduction (twice the tolerance would not reproduce it either),
       but the interval of the paired difference to the row that it is ordered against excludes 0 on the
       printed side. There must be at least 5 pairs, equal budgets, and half of the length on both sides. The
       value must lie on the printed side of the stated threshold of success, no printed failure may be
       refuted (see below), and the unit must be monotone.
       Where the value differs (3), the interval must exclude 0 even with twice its arm. Otherwise the same
       experiment with other seeds would change between the two words. A value in between is inconclusive.
    3. **differs**: the whole interval, widened by unseen outcomes, lies outside ±tol.
    4. Otherwise **inconclusive**.

    A claim (an inequality) is **reproduced** when it holds through the whole interval. It **differs** when it
    fails through the whole interval of 99 %, widened by unseen outcomes where the quantity has bounds.
    Otherwise it is **inconclusive**; a claim has no direction.

    A statement that an attack succeeds is neither reproduced nor holds its direction where the attack does
    not beat the null baselines. It is then **inconclusive**, or **differs**. Where the source states no
    length and the run has not settled, a failure does not refute a success: more iterations might succeed.

    A statement that an attack fails **differs** where the attack succeeds, after however small a share of the
    length: an attacker may stop early. It succeeds where the number differs on the side that says more was
    read, lies beyond the threshold of success through its whole interval, and beats the null baselines.

    Outcomes of two kinds: where trials fall into two groups that are further apart than 3 tol, a number is
    also **reproduced** by the median, with its distribution-free interval, and **differs** only if it does so
    by mean and by median. A printed number may be the mean of several runs, or one run.

    Unseen outcomes: n trials miss a kind of outcome of share w = 1 - 0.05^(1/n) with a chance of 5 % (n = 5:
    45 %, 10: 26 %, 20: 14 %, 50: 6 %). Before a statement is said to differ, the mean is therefore allowed to
    have a share w of outcomes at either bound of the quantity. Where there is no bound, the interval grows by
    4 w deviations.

    What the rule promises, by simulation of normal, bounded, skewed and bimodal samples of 5 to 50 trials, on
    one, three and five networks: at a true difference of at most one tolerance, "differs" is said in at most
    5 % of samples; at three tolerances or more, "reproduced" in at most 5 %. With one network the word speaks
    of that network. "Reproduced" has two limits. A kind of outcome whose share is below w stays unseen in
    more than 5 % of samples of n, and no rule that sees the sample alone can detect it. Below 20 trials of
    skewness above 2 (an exponential distribution has 2), the tail is such an outcome: up to 10 % with a
    skewness of 6 and n = 5.
    """
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
    """Judge a fact or setting: **reproduced** when the texts are equal, else **differs**.

    Where the published text is a list `key=value; ...`, each of its cells must equal the measured cell of
    that key; a key that the source leaves out is not compared. Numbers are equal by value, words regardless
    of case and spaces.
    """
    ours, theirs = _cells(measured), _cells(published)
    wrong = [key for key, value in theirs.items() if not _same(value, ours.get(key, ""))]
    if not wrong:
        return Verdict("reproduced", "the same as published")
    if list(theirs) == [""]:
        return Verdict("differs", f"ours is {measured or 'absent'}")
    return Verdict("differs", "; ".join(f"{key} is {ours.get(key) or 'absent'} in ours" for key in wrong))


def decide_outcome(
    successes: Sequence[bool],
    published: Literal["success", "failure"],
    length: float,
    schedule: Schedule | None = None,
    open_end: bool = False,
    networks: int = 0,
) -> Verdict:
    """Judge a printed success or failure by independent trials.

    The attack succeeds when Wilson's 95 % interval of its share of successes lies above 1/2, and fails when
    the interval lies below. Otherwise the row is **inconclusive**, and also with fewer than 5 trials, with
    less than half of the published length, or where the step size falls again after the end of the run. A
    success refutes a printed failure after any length. A failure does not refute a printed success where the
    source states no length and the run has not settled.

    successes: whether each trial succeeded.
    published: the printed outcome.
    length: share of the published length that ran.
    schedule: as of a sample.
    open_end: as of a sample.
    networks: as of a sample.
    """
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
_OPEN_END = (
    "the source states no length, that of its code was run, and the search had not settled, so that more "
    "iterations might succeed"
)


def _too_few(n: int) -> str:
    if n >= FEWEST:
        return ""
    return f"{n} independent trial{'s' * (n != 1)}, of which at least {FEWEST} are needed"


def _unfinished(length: float, schedule: Schedule | None) -> str:
    """Return why a run was too short, or an empty text."""
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
    value, low, high = _difference(statement, sample, _range(sample))
    trusted = abs(value) <= tolerance and not _by_student(sample)
    sure = _difference(statement, sample, (_range if trusted else _surely)(sample))
    numbers = (
        f"{_show(sample.value)} against {_show(statement.against)}, "
        f"a difference of {_show(value)} ({_span(low, high)})"
    )
    beaten = statement.success and statement.monotone and sample.beats_null is False
    if _near(value, low, high, sure, tolerance):
        if beaten:
            return Verdict("inconclusive", f"{numbers}, but no better than the null baselines")
        nulls = [null for null in sample.nulls if abs(null - statement.against) <= tolerance]
        if not statement.monotone and (nulls or not sample.nulls):
            said = f"a null baseline gives {_show(nulls[0])}" if nulls else "no null baseline is known"
            return Verdict(
                "inconclusive",
                f"{numbers}: agrees, but the unit is not monotone in quality, and {said}",
            )
        closeness = f"within the tolerance of {_show(tolerance)}"
        return Verdict(
            "reproduced",
            f"{numbers}: {closeness if abs(value) <= tolerance else 'the interval contains 0'}",
            kind=_kind(statement, bool(nulls), tolerance),
        )
    _, least, most = _difference(statement, sample, _widened(statement.bounds, sample))
    differs = least > tolerance or most < -tolerance
    contrary = not _same_outcome(statement, sample) or _reads(statement, sample)
    arms = 0.0 if beaten or contrary else _ordered(statement, sample)
    if arms > 1 and sample.ordering is not None and not _near(value, low, high, sure, 2 * tolerance):
        order = f"the printed order holds, by {_show(sample.ordering.value)}"
        order += f" ({_span(sample.ordering.low, sample.ordering.high)}) over {sample.ordering.n} pairs"
        if differs and arms <= CLEARLY:
            return Verdict("inconclusive", f"{numbers}, too far; {order}, too narrowly to outweigh that")
        return Verdict("direction", f"{numbers}; {order}")
    if differs:
        beyond = (
            f"beyond the tolerance of {_show(tolerance)}, even with outcomes that the trials may have missed"
        )
        return Verdict("differs", f"{numbers}: {beyond}")
    if low > tolerance or high < -tolerance:
        why = f"beyond the tolerance of {_show(tolerance)}, but {sample.n} trials may miss a kind of outcome"
    elif (high - low) / 2 > RESOLUTION * tolerance:
        why = f"too wide for the tolerance of {_show(tolerance)}"
    else:
        why = f"neither surely within nor surely beyond the tolerance of {_show(tolerance)}"
    return Verdict("inconclusive", f"{numbers}: {why}")


def _kind(statement: Statement, as_null: bool, tolerance: float) -> Kind:
    """Return what a reproduced statement is worth."""
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
    _, low, high = _difference(statement, sample, _range(sample))
    _, least, most = _difference(statement, sample, _doubted(statement.bounds, sample))
    if sign < 0:
        low, high, least, most = -high, -low, -most, -least
    test = f"{statement.relation} {_show(statement.against)}"
    numbers = f"measured {_show(sample.value)} ({_span(sample.low, sample.high)})"
    if low > 0 or (low == 0 and not strict):
        if statement.success and sample.beats_null is False:
            return Verdict("inconclusive", f"{test}: {numbers}, but no better than the null baselines")
        told = f"{test} through the whole interval: {numbers}"
        return Verdict("reproduced", told, kind=_kind(statement, False, 0.0))
    if most < 0 or (most == 0 and strict):
        return Verdict(
            "differs", f"not {test}: {numbers}, even with outcomes that the trials may have missed"
        )
    if high < 0:
        return Verdict(
            "inconclusive", f"not {test}: {numbers}, but {sample.n} trials may miss a kind of outcome"
        )
    return Verdict("inconclusive", f"{test} lies inside the interval: {numbers}")


def _ordered(statement: Statement, sample: Sample) -> float:
    """Return how far the difference lies on the printed side of 0, in arms of its interval.

    The arm is the one that points to 0: above 1 the interval excludes 0. The result is 0 where the pairs
    decide nothing.
    """
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


def _range(sample: Sample) -> tuple[float, float]:
    # A bootstrap interval may miss the mean of a very skewed sample.
    return min(sample.low, sample.value), max(sample.high, sample.value)


def _surely(sample: Sample) -> tuple[float, float]:
    """Return the interval of a sample at the level SURE: its arms are longer as those of Student's t are."""
    from scipy.special import stdtrit

    low, high = _range(sample)
    longer = float(stdtrit(sample.units - 1, (1 + SURE) / 2) / stdtrit(sample.units - 1, 0.975))
    if not math.isfinite(sample.value):
        return low, high
    return sample.value - longer * (sample.value - low), sample.value + longer * (high - sample.value)


def _by_student(sample: Sample) -> bool:
    """Return whether the interval is Student's t: it is symmetric, Wilson's and the bootstrap's are not."""
    low, high = _range(sample)
    return sample.units < BOOTSTRAP_FROM and math.isclose(
        sample.value - low, high - sample.value, rel_tol=0.01
    )


def _doubted(bounds: tuple[float, float], sample: Sample) -> tuple[float, float]:
    """Return the interval of a sample, widened by unseen outcomes at its bounds."""
    low, high = _surely(sample)
    share, centre = unseen(sample.n), min(max(sample.value, bounds[0]), bounds[1])
    least, most = (
        (1 - share) * centre + share * bound if math.isfinite(bound) else end
        for bound, end in zip(bounds, (low, high), strict=True)
    )
    return min(low, least), max(high, most)


def _widened(bounds: tuple[float, float], sample: Sample) -> tuple[float, float]:
    """Return the interval of a sample, widened by unseen outcomes, whether bounded or not."""
    from scipy.special import stdtrit

    low, high = _range(sample)
    deviation = math.sqrt(sample.units) * (high - low) / 2 / float(stdtrit(sample.units - 1, 0.975))
    further = BEYOND * unseen(sample.n) * deviation
    least, most = _doubted(bounds, sample)
    return (
        least if math.isfinite(bounds[0]) else low - further,
        most if math.isfinite(bounds[1]) else high + further,
    )


def _difference(
    statement: Statement, sample: Sample, ends: tuple[float, float]
) -> tuple[float, float, float]:
    """Return measured - published, with the interval of the sample's `ends` and the print's own error."""
    from scipy.special import stdtrit

    error = statement.rounding
    if statement.std is not None and statement.n is not None and statement.n > 1:
        half = float(stdtrit(statement.n - 1, 0.975)) * statement.std / math.sqrt(statement.n - 1)
        error = math.hypot(error, half)
    value, low, high = (number - statement.against for number in (sample.value, *ends))
    # An infinite value (the PSNR of an identical image) has no distance to a finite bound.
    if math.isfinite(value - low):
        low = value - math.hypot(value - low, error)
    if math.isfinite(high - value):
        high = value + math.hypot(high - value, error)
    return value, low, high


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
