"""What decides a verdict, one condition at a time. How often it is wrong is in test_verdict_simulation.py."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbench.papers.verdicts.schedule import Schedule
from leakbench.papers.verdicts.verdict import (
    EXACT,
    Ordering,
    Sample,
    Statement,
    Verdict,
    decide,
    decide_outcome,
    decide_text,
    unseen,
)

PRINTED = Statement("=", 25.0, rounding=0.005, tolerance=1.5, bounds=(0.0, 60.0))
TWENTY_FIVE = Sample(25.2, 24.2, 26.2, 20)
FAR = Sample(12.0, 11.0, 13.0, 20)
BETTER = Ordering(3.0, 2.0, 4.0, 20, equal_budget=True)
ORDERED = replace(PRINTED, sign=1)
# Half of a schedule whose step size falls again, and a whole one.
HALF = Schedule(5000, 10000, (6250, 8750))
WHOLE = Schedule(5000, 5000)


def word(statement: Statement, sample: Sample, **changes: Any) -> str:
    return decide(statement, replace(sample, **changes)).word


AGAIN = (
    "the first 5,000 of 10,000 iterations; the step size falls again at 6,250 and 8,750, so nothing is "
    "decided before the whole schedule has run"
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"n": 4}, "4 independent trials, of which at least 5 are needed"),
        ({"n": 1, "low": math.nan, "high": math.nan}, "1 independent trial, of which at least 5 are needed"),
        ({"low": math.nan, "high": math.nan}, "measured 25.2, without an interval"),
        ({"value": math.nan, "low": math.nan, "high": math.nan}, "the measured quantity is undefined"),
        ({"length": 0.49}, "49 % of the published length, of which at least 50 % are needed"),
        ({"length": math.nan}, "nan % of the published length, of which at least 50 % are needed"),
        ({"length": 0.5, "schedule": HALF}, AGAIN),
        (
            {"length": 0.3, "schedule": HALF},
            "30 % of the published length, of which at least 50 % are needed",
        ),
    ],
)
@pytest.mark.parametrize(
    "statement", [PRINTED, Statement(">", 20.0), Statement("=", 0.0), Statement("<", 20.0)]
)
def test_what_says_too_little_decides_nothing(
    changes: dict[str, Any], reason: str, statement: Statement
) -> None:
    assert word(statement, TWENTY_FIVE) in ("reproduced", "differs")
    changed = replace(TWENTY_FIVE, **changes)
    assert decide(statement, changed) == Verdict("inconclusive", reason, weighed=False)


def test_half_of_the_length_and_five_trials_are_enough() -> None:
    assert word(PRINTED, TWENTY_FIVE, length=0.5, n=5) == "reproduced"
    assert word(PRINTED, TWENTY_FIVE, length=0.5, n=5, schedule=WHOLE) == "reproduced"


def test_a_fall_of_the_step_size_to_come_decides_neither_an_order_nor_an_outcome() -> None:
    for schedule, found, outcome in ((WHOLE, "direction", "reproduced"), (HALF, "differs", "inconclusive")):
        assert word(ORDERED, FAR, ordering=replace(BETTER, schedule=schedule)) == found
        verdict = decide_outcome([True] * 20, "success", 0.5, schedule)
        assert (verdict.word, verdict.weighed) == (outcome, schedule is WHOLE)
    assert decide_outcome([True] * 20, "success", 0.5, HALF).reason == AGAIN


WRAPPED = replace(ORDERED, monotone=False, success=True, leak=1)


def test_numbers_in_a_unit_that_is_not_monotone_may_differ() -> None:
    assert word(WRAPPED, Sample(40.0, 39.0, 41.0, 20)) == "differs"
    assert word(WRAPPED, Sample(10.0, 9.0, 11.0, 20)) == "differs"
    # A larger number is no better image, so the order says nothing.
    assert word(WRAPPED, FAR, ordering=BETTER) == "differs"


@pytest.mark.parametrize(
    ("nulls", "expected"),
    [((12.0, 40.0), "reproduced"), ((12.0, 26.4), "inconclusive"), ((), "inconclusive")],
)
def test_agreement_in_such_a_unit_is_no_success_that_a_null_baseline_has_too(
    nulls: tuple[float, ...], expected: str
) -> None:
    # Whether the number is larger than the null's says nothing either.
    for beats in (True, False):
        verdict = decide(WRAPPED, replace(TWENTY_FIVE, nulls=nulls, beats_null=beats))
        assert verdict.word == expected
        assert ("not monotone" in verdict.reason) == (expected == "inconclusive")


HIDDEN = Statement(
    "=", 0.05, rounding=0.005, tolerance=0.075, bounds=(0.0, 1.0), hidden=True, leak=1, threshold=0.5
)
READ = Sample(0.88, 0.81, 0.95, 10, length=0.05, beats_null=True)
ERROR = replace(HIDDEN, against=100.0, tolerance=25.0, bounds=(0.0, 255.0), leak=-1, threshold=None)
SMALL = replace(READ, value=10.0, low=8.0, high=12.0, n=50)


def test_a_success_after_any_length_refutes_a_printed_failure() -> None:
    verdict = decide(HIDDEN, READ)
    assert (verdict.word, verdict.weighed) == ("differs", True)
    assert "an attacker may stop early, so the success counts although this is 5 % of" in verdict.reason
    assert word(HIDDEN, READ, length=0.6, schedule=HALF) == "differs"
    assert word(ERROR, SMALL) == "differs"
    assert word(Statement("<", 0.2, hidden=True, bounds=(0.0, 1.0)), READ) == "differs"


@pytest.mark.parametrize(
    ("statement", "sample"),
    [
        (replace(HIDDEN, hidden=False), READ),
        # A smaller number would say that more was read.
        (replace(HIDDEN, leak=-1, threshold=0.95), READ),
        (HIDDEN, replace(READ, beats_null=False)),
        # No image is recognised, or perhaps none.
        (HIDDEN, replace(READ, value=0.3, low=0.25, high=0.35)),
        (HIDDEN, replace(READ, value=0.6, low=0.45, high=0.75)),
        # Without a threshold the null baselines must be beaten.
        (ERROR, replace(SMALL, beats_null=None)),
        (ERROR, replace(SMALL, value=200.0, low=198.0, high=202.0)),
        (Statement("<", 0.2, bounds=(0.0, 1.0)), READ),
        (Statement("<", 0.9, hidden=True, bounds=(0.0, 1.0)), READ),
    ],
)
def test_what_is_no_success_after_a_part_of_the_length_decides_nothing(
    statement: Statement, sample: Sample
) -> None:
    verdict = decide(statement, sample)
    assert (verdict.word, verdict.weighed) == ("inconclusive", False)
    assert verdict.reason.startswith("5 % of the published length")


def test_an_early_success_that_proves_too_little_is_not_left_open_for_its_length() -> None:
    verdict = decide(ERROR, replace(SMALL, n=5))
    assert verdict.word == "inconclusive"
    assert "5 trials may miss a kind of outcome" in verdict.reason


def test_outcomes_after_a_part_of_the_length() -> None:
    assert decide_outcome([True] * 10, "failure", 0.05).word == "differs"
    assert decide_outcome([True] * 10, "failure", 0.6, HALF).word == "differs"
    for successes, printed in (([True] * 6 + [False] * 4, "failure"), ([False] * 10, "success")):
        assert decide_outcome(successes, printed, 0.05).word == "inconclusive"


def test_a_direction_lies_on_the_printed_side_of_the_threshold_of_success() -> None:
    printed = Statement("=", 0.9, tolerance=0.075, bounds=(0.0, 1.0), leak=1, threshold=0.5, sign=1)
    sample = Sample(0.6, 0.55, 0.65, 10, ordering=replace(BETTER, value=0.3, low=0.2, high=0.4))
    assert word(printed, sample) == "direction"
    assert word(printed, sample, value=0.45, low=0.4, high=0.5) == "differs"
    # A printed failure is refuted, although the order to its rival holds.
    hidden = replace(HIDDEN, sign=-1)
    worse = Ordering(-0.1, -0.12, -0.08, 10, equal_budget=True)
    assert word(hidden, READ, length=1.0, ordering=worse) == "differs"
    assert word(replace(ERROR, sign=1), SMALL, length=1.0, n=5, ordering=BETTER) == "inconclusive"
    assert word(replace(ERROR, sign=1, hidden=False), SMALL, length=1.0, n=5, ordering=BETTER) == "direction"


def test_a_failure_after_an_unstated_length_refutes_no_success() -> None:
    success = replace(PRINTED, success=True, leak=1)
    assert word(success, FAR, beats_null=True) == "differs"
    verdict = decide(success, replace(FAR, beats_null=True, open_end=True))
    assert (verdict.word, verdict.weighed) == ("inconclusive", True)
    assert "the source states no length" in verdict.reason
    # More iterations explain no number that is too good, and none of an attack that is said to fail.
    assert word(success, Sample(50.0, 49.0, 51.0, 50), open_end=True) == "differs"
    assert word(replace(success, success=False), FAR, open_end=True) == "differs"
    # Nor does a unit that is not monotone say which number falls short.
    assert word(replace(success, monotone=False), FAR, open_end=True) == "differs"
    claim = Statement(">", 20.0, success=True)
    assert (word(claim, FAR), word(claim, FAR, open_end=True)) == ("differs", "inconclusive")
    assert word(replace(claim, success=False), FAR, open_end=True) == "differs"
    for printed, found in (("success", "inconclusive"), ("failure", "reproduced")):
        assert decide_outcome([False] * 10, printed, 1.0, None, True).word == found  # type: ignore[arg-type]
    assert decide_outcome([True] * 10, "failure", 1.0, None, True).word == "differs"


def test_the_interval_of_several_networks_counts_networks() -> None:
    # At 99 % an interval of three networks is 2.3 times as wide, and that of thirty trials hardly wider.
    sample = Sample(26.6, 24.8, 28.4, 30)
    assert word(PRINTED, sample) == "reproduced"
    assert word(PRINTED, sample, networks=3) == "inconclusive"
    assert word(PRINTED, sample, networks=1) == "reproduced"


def test_a_word_on_one_network_says_so() -> None:
    for statement, sample in ((PRINTED, TWENTY_FIVE), (PRINTED, FAR), (Statement(">", 20.0), TWENTY_FIVE)):
        assert decide(statement, replace(sample, networks=1)).reason.endswith(", on one network")
        for networks in (0, 3):
            assert "on one network" not in decide(statement, replace(sample, networks=networks)).reason
    assert decide_outcome([True] * 9, "failure", 0.5, networks=1).reason.endswith(", on one network")


def of(trials: list[float], **changes: Any) -> Sample:
    mean, arm = sum(trials) / len(trials), 0.5
    sample = Sample(mean, mean - arm, mean + arm, len(trials), values=tuple(trials))
    return replace(sample, **changes)


def test_a_number_of_outcomes_of_two_kinds_is_judged_by_the_median_too() -> None:
    # Five of fifty searches fail, so that the mean is 22.5 and the median 25.
    mixed = [25.0 + 0.01 * place for place in range(-22, 23)] + [0.0] * 5
    verdict = decide(PRINTED, of(mixed))
    assert verdict.word == "reproduced"
    assert verdict.reason.startswith("the median is 24.98")
    assert "45 of 50 trials lie near 25 and the others near 0" in verdict.reason
    assert word(PRINTED, of(mixed, values=())) == "inconclusive"
    # The median is that of one network.
    assert word(PRINTED, of(mixed, networks=3)) == "inconclusive"
    # A print that is the mean stays reproduced, and one that is neither differs.
    assert word(replace(PRINTED, against=22.5), of(mixed)) == "reproduced"
    assert word(replace(PRINTED, against=45.0), of(mixed)) == "differs"


def test_the_mean_alone_does_not_make_outcomes_of_two_kinds_differ() -> None:
    half = [40.0, 40.5] * 25 + [0.0, 0.5] * 25
    assert word(replace(PRINTED, against=40.0), of(half, values=())) == "differs"
    assert word(replace(PRINTED, against=40.0), of(half)) == "inconclusive"
    few = replace(PRINTED, against=58.0, bounds=(0.0, 58.0))
    assert word(few, of([40.0] * 4 + [10.0], values=())) == "differs"
    assert "say nothing of the median" in decide(few, of([40.0] * 4 + [10.0])).reason
    # A share has an interval of its own, whatever its unit.
    share = Statement("=", 60.0, tolerance=10.0, bounds=(0.0, 100.0))
    assert word(share, Sample(90.0, 87.0, 93.0, 50, values=(100.0,) * 45 + (0.0,) * 5)) == "differs"


@pytest.mark.parametrize(
    ("statement", "sample", "kind"),
    [
        (PRINTED, TWENTY_FIVE, "success"),
        (replace(PRINTED, rivals=(20.0, 27.0)), TWENTY_FIVE, "success"),
        (replace(PRINTED, rivals=(20.0, 26.4)), TWENTY_FIVE, "as-rival"),
        (replace(PRINTED, rivals=(26.4,)), replace(TWENTY_FIVE, nulls=(4.0, 24.0)), "as-null"),
        (PRINTED, replace(TWENTY_FIVE, nulls=(4.0, 27.0)), "success"),
        (replace(PRINTED, hidden=True), TWENTY_FIVE, "failure"),
        (replace(PRINTED, hidden=True), replace(TWENTY_FIVE, nulls=(25.0,)), "as-null"),
        (Statement(">", 20.0), TWENTY_FIVE, "success"),
        (Statement("<", 30.0, hidden=True), TWENTY_FIVE, "failure"),
        (Statement(">", 20.0, trivial=True), TWENTY_FIVE, "as-null"),
        (PRINTED, FAR, ""),
    ],
)
def test_a_reproduced_statement_says_what_it_is_worth(
    statement: Statement, sample: Sample, kind: str
) -> None:
    assert decide(statement, sample).kind == kind


def test_an_outcome_is_a_success_or_a_failure() -> None:
    assert decide_outcome([True] * 9, "success", 1.0).kind == "success"
    assert decide_outcome([False] * 9, "failure", 1.0).kind == "failure"


def test_a_print_without_a_number_decides_nothing() -> None:
    assert decide(replace(PRINTED, against=math.nan), TWENTY_FIVE).reason == "no number is printed"


@pytest.mark.parametrize(
    ("value", "arm", "expected"),
    [
        (25.0, 1.0, "reproduced"),
        (26.5, 0.5, "reproduced"),
        (26.5, 2.9, "reproduced"),
        # The interval contains the print, which is further than the tolerance.
        (26.8, 1.9, "reproduced"),
        # And this interval of 99 % reaches beyond three tolerances.
        (27.0, 2.2, "inconclusive"),
        (27.2, 2.5, "inconclusive"),
        # Half of the interval measures more than two tolerances.
        (25.0, 3.1, "inconclusive"),
        (27.0, 1.0, "inconclusive"),
        # Beyond the tolerance, unless 14 % of the outcomes are of a kind that 20 trials did not show.
        (29.0, 1.0, "inconclusive"),
        (40.0, 1.0, "differs"),
        (15.0, 1.0, "differs"),
    ],
)
def test_numbers(value: float, arm: float, expected: str) -> None:
    assert word(PRINTED, Sample(value, value - arm, value + arm, 20)) == expected


def test_the_reason_has_the_numbers_that_decide() -> None:
    assert decide(PRINTED, TWENTY_FIVE).reason == (
        "25.2 against 25, a difference of 0.2 (-0.8 to 1.2): within the tolerance of 1.5"
    )
    assert decide(PRINTED, Sample(40.0, 39.0, 41.0, 20)).reason == (
        "40 against 25, a difference of 15 (14 to 16): "
        "beyond the tolerance of 1.5, even with outcomes that the trials may have missed"
    )
    assert decide(PRINTED, Sample(25.0, 20.0, 30.0, 20)).reason == (
        "25 against 25, a difference of 0 (-5 to 5): too wide for the tolerance of 1.5"
    )
    assert "20 trials may miss a kind of outcome" in decide(PRINTED, Sample(29.0, 28.0, 30.0, 20)).reason
    assert "neither surely within" in decide(PRINTED, Sample(27.0, 26.0, 28.0, 20)).reason


def test_students_interval_must_stay_near_at_99_percent() -> None:
    # 99 % of five trials is 1.66 times as wide: 26 + 1.66 * 2 lies beyond 25 + 3 * 1.5, but not that of 1.9.
    assert word(PRINTED, Sample(26.0, 24.0, 28.0, 5)) == "reproduced"
    assert word(PRINTED, Sample(26.4, 24.4, 28.4, 5)) == "inconclusive"
    # Wilson's interval is not symmetric, and the bootstrap's follows the sample.
    share = Statement("=", 1.0, tolerance=0.1, bounds=(0.0, 1.0))
    assert word(share, Sample(1.0, 0.722, 1.0, 10)) == "reproduced"
    assert word(PRINTED, Sample(26.4, 24.4, 28.4, 20)) == "reproduced"


def test_the_prints_own_error_counts() -> None:
    sample = Sample(41.0, 40.0, 42.0, 20)
    assert word(PRINTED, sample) == "differs"
    assert word(replace(PRINTED, std=20.0, n=10), sample) == "inconclusive"
    assert word(replace(PRINTED, std=20.0), sample) == "differs"
    assert word(replace(PRINTED, std=20.0, n=1), sample) == "differs"
    near = Sample(26.8, 25.8, 27.8, 20)
    assert word(PRINTED, near) == "inconclusive"
    assert word(replace(PRINTED, std=3.0, n=10), near) == "reproduced"
    # A coarse print ("about 30") has its rounding as tolerance.
    assert word(Statement("=", 30.0, rounding=5.0), Sample(33.0, 32.0, 34.0, 20)) == "reproduced"
    assert word(Statement("=", 30.0, rounding=0.5), Sample(33.0, 32.5, 33.5, 20)) == "differs"


def test_what_is_computed_needs_no_trials() -> None:
    printed = Statement("=", 14.62, rounding=0.005, tolerance=1.0, bounds=(0.0, 100.0))
    assert word(printed, Sample(14.6, 14.6, 14.6, EXACT)) == "reproduced"
    assert word(printed, Sample(16.0, 16.0, 16.0, EXACT)) == "differs"
    assert word(printed, Sample(14.6, 14.6, 14.6, 2)) == "inconclusive"
    assert word(Statement(">=", 14.0), Sample(14.6, 14.6, 14.6, EXACT)) == "reproduced"


@pytest.mark.parametrize("bounds", [(0.0, 60.0), (0.0, math.inf)])
def test_an_infinite_mean_differs_where_the_rest_does(bounds: tuple[float, float]) -> None:
    identical = Sample(math.inf, 41.0, math.inf, 20)
    assert word(replace(PRINTED, bounds=bounds), identical) == "differs"
    assert word(replace(PRINTED, bounds=bounds, against=45.0), identical) == "inconclusive"
    assert word(Statement("=", 25.0, tolerance=1.5), identical) == "inconclusive"


def test_unseen_outcomes_are_those_that_n_trials_miss_once_in_twenty() -> None:
    for n in (1, 5, 10, 50):
        assert (1 - unseen(n)) ** n == pytest.approx(0.05)


def test_rare_failures_forbid_to_say_that_a_number_differs() -> None:
    # Ten fine images of a method that prints 30 dB: failures of up to a quarter of images would explain it.
    perfect = Sample(36.0, 35.5, 36.5, 10)
    assert word(replace(PRINTED, against=30.0), perfect) == "inconclusive"
    assert word(replace(PRINTED, against=30.0, bounds=(30.0, 60.0)), perfect) == "differs"
    assert word(replace(PRINTED, against=30.0), perfect, n=100) == "differs"
    # Where there is no bound, the interval grows with the deviation of the sample.
    unbounded = replace(PRINTED, against=30.0, bounds=(-math.inf, math.inf))
    assert word(unbounded, perfect) == "differs"
    assert word(unbounded, Sample(36.0, 33.0, 39.0, 10)) == "inconclusive"
    assert decide(unbounded, Sample(42.0, 37.0, 47.0, 10)).word == "inconclusive"


@pytest.mark.parametrize(
    ("ordering", "expected"),
    [
        (BETTER, "direction"),
        (Ordering(3.0, 1.4, 4.6, 20, equal_budget=True), "inconclusive"),
        (Ordering(3.0, -0.1, 6.1, 20, equal_budget=True), "differs"),
        (Ordering(-3.0, -4.0, -2.0, 20, equal_budget=True), "differs"),
        (Ordering(3.0, math.nan, math.nan, 20, equal_budget=True), "differs"),
        (replace(BETTER, n=4), "differs"),
        (replace(BETTER, equal_budget=False), "differs"),
        (replace(BETTER, length=0.4), "differs"),
        (None, "differs"),
    ],
)
def test_a_number_that_differs_may_have_its_direction(ordering: Ordering | None, expected: str) -> None:
    assert word(ORDERED, FAR, ordering=ordering) == expected
    assert word(PRINTED, FAR, ordering=ordering) == "differs"
    turned = ordering and replace(ordering, value=-ordering.value, low=-ordering.high, high=-ordering.low)
    assert word(replace(PRINTED, sign=-1), FAR, ordering=turned) == expected


def test_a_number_that_is_too_uncertain_may_have_its_direction() -> None:
    uncertain = Sample(25.0, 15.0, 35.0, 20, ordering=Ordering(3.0, 0.1, 5.9, 20, equal_budget=True))
    assert word(ORDERED, uncertain) == "direction"
    assert "the printed order holds, by 3 (0.1 to 5.9) over 20 pairs" in decide(ORDERED, uncertain).reason
    assert word(ORDERED, uncertain, ordering=None) == "inconclusive"
    # Nearly reproduced: the same experiment with other seeds may well be reproduced.
    assert word(ORDERED, replace(uncertain, low=21.0, high=29.0)) == "inconclusive"
    assert word(ORDERED, TWENTY_FIVE, ordering=BETTER) == "reproduced"


def test_a_success_must_beat_the_null_baselines() -> None:
    success = replace(ORDERED, success=True)
    assert word(success, TWENTY_FIVE, beats_null=True) == "reproduced"
    assert word(success, TWENTY_FIVE, beats_null=None) == "reproduced"
    assert word(success, TWENTY_FIVE, beats_null=False) == "inconclusive"
    assert word(PRINTED, TWENTY_FIVE, beats_null=False) == "reproduced"
    assert word(success, FAR, beats_null=True, ordering=BETTER) == "direction"
    # Neither attack reconstructs anything: their order says nothing, but the number differs.
    assert word(success, FAR, beats_null=False, ordering=BETTER) == "differs"
    claim = Statement(">", 20.0, success=True)
    assert word(claim, TWENTY_FIVE, beats_null=True) == "reproduced"
    assert "null baselines" in decide(claim, replace(TWENTY_FIVE, beats_null=False)).reason
    assert word(claim, FAR, beats_null=False) == "differs"


@pytest.mark.parametrize(
    ("relation", "against", "expected"),
    [
        (">", 23.0, "reproduced"),
        (">", 24.2, "inconclusive"),
        (">=", 24.2, "reproduced"),
        (">", 25.0, "inconclusive"),
        (">=", 26.2, "inconclusive"),
        (">", 28.0, "differs"),
        ("<", 27.0, "reproduced"),
        ("<", 26.2, "inconclusive"),
        ("<=", 26.2, "reproduced"),
        ("<", 25.0, "inconclusive"),
        ("<=", 22.0, "differs"),
    ],
)
def test_claims(relation: Any, against: float, expected: str) -> None:
    assert word(Statement(relation, against), TWENTY_FIVE) == expected
    # A claim has no direction.
    assert word(Statement(relation, against, sign=1), TWENTY_FIVE, ordering=BETTER) == expected


def test_a_claim_names_its_threshold_and_the_interval() -> None:
    assert decide(Statement(">", 20.0), TWENTY_FIVE).reason == (
        "> 20 through the whole interval: measured 25.2 (24.2 to 26.2)"
    )
    assert decide(Statement("<", 20.0), TWENTY_FIVE).reason.startswith(
        "not < 20: measured 25.2 (24.2 to 26.2)"
    )
    assert decide(Statement("<", 25.0), TWENTY_FIVE).reason.startswith("< 25 lies inside the interval")


def test_a_claim_is_refuted_only_where_unseen_outcomes_cannot_save_it() -> None:
    none = Sample(0.1, 0.05, 0.15, 10)
    assert word(Statement(">", 0.3), none) == "differs"
    assert word(Statement(">", 0.3, bounds=(0.0, 1.0)), none) == "inconclusive"
    assert "10 trials may miss" in decide(Statement(">", 0.3, bounds=(0.0, 1.0)), none).reason
    assert word(Statement(">", 0.4, bounds=(0.0, 1.0)), none) == "differs"


@pytest.mark.parametrize(
    ("hits", "n", "published", "expected"),
    [
        (5, 5, "success", "reproduced"),
        (5, 5, "failure", "differs"),
        (0, 5, "failure", "reproduced"),
        (0, 5, "success", "differs"),
        (4, 5, "success", "inconclusive"),
        (9, 10, "success", "reproduced"),
        (7, 10, "success", "inconclusive"),
        (30, 40, "success", "reproduced"),
        (4, 4, "success", "inconclusive"),
    ],
)
def test_outcomes(hits: int, n: int, published: Any, expected: str) -> None:
    assert decide_outcome([True] * hits + [False] * (n - hits), published, 1.0).word == expected


def test_an_outcome_needs_length_and_trials() -> None:
    assert decide_outcome([True] * 9, "success", 0.3).reason.startswith("30 % of the published length")
    assert decide_outcome([True] * 9, "failure", 0.5).reason == (
        "9 of 9 trials succeed (95 % interval of the share 0.7009 to 1); the source prints failure"
    )


@pytest.mark.parametrize(
    ("measured", "published", "expected"),
    [
        ("128", "128", "reproduced"),
        ("0.0100", "1e-2", "reproduced"),
        ("Adadelta", "adadelta", "reproduced"),
        ("adam", "adadelta", "differs"),
        ("", "0.95", "differs"),
        ("layer=dense; size=128; stride=; activation=relu", "layer=dense; size=128", "reproduced"),
        ("layer=conv2d; size=3,3x32; pad=valid", "layer=conv2d; size=3,3 x 32; pad=valid", "reproduced"),
        ("layer=conv2d; padding=valid", "layer=conv2d; padding=same", "differs"),
        ("layer=dense", "layer=dense; size=10", "differs"),
    ],
)
def test_facts_are_equal_or_not(measured: str, published: str, expected: str) -> None:
    assert decide_text(measured, published).word == expected


def test_a_fact_that_differs_names_ours() -> None:
    assert decide_text("adam", "adadelta").reason == "ours is adam"
    assert decide_text("", "adadelta").reason == "ours is absent"
    assert decide_text("layer=x; padding=valid", "layer=x; padding=same").reason == "padding is valid in ours"


numbers = st.floats(-1e6, 1e6)
widths = st.floats(0, 1e6)
statements = st.builds(
    Statement,
    st.sampled_from(["=", ">", ">=", "<", "<="]),
    numbers,
    rounding=st.floats(0, 10),
    std=st.none() | st.floats(0, 10),
    n=st.none() | st.integers(0, 50),
    tolerance=st.floats(0, 100),
    bounds=st.sampled_from([(-math.inf, math.inf), (0.0, math.inf), (-1e6, 1e6)]),
    success=st.booleans(),
    sign=st.sampled_from([-1, 0, 1]),
)
orderings = st.none() | st.builds(
    lambda value, down, up, n, equal: Ordering(value, value - down, value + up, n, equal),
    numbers,
    widths,
    widths,
    st.integers(0, 50),
    st.booleans(),
)
samples = st.builds(
    lambda value, down, up, n, beats, ordering: Sample(
        value, value - down, value + up, n, beats_null=beats, ordering=ordering
    ),
    numbers,
    widths,
    widths,
    st.integers(0, 50),
    st.sampled_from([None, True, False]),
    orderings,
)


@given(statements, samples, widths, widths)
def test_widening_the_interval_never_turns_one_decided_word_into_the_other(
    statement: Statement, sample: Sample, down: float, up: float
) -> None:
    wider = replace(sample, low=sample.low - down, high=sample.high + up)
    assert {word(statement, sample), word(statement, wider)} != {"reproduced", "differs"}


@given(statements, samples, numbers)
def test_moving_print_and_sample_alike_changes_nothing(
    statement: Statement, sample: Sample, by: float
) -> None:
    by = float(round(by))
    sample = replace(sample, value=float(round(sample.value)), low=sample.low // 1, high=sample.high // 1 + 1)
    statement = replace(statement, against=float(round(statement.against)), bounds=(-math.inf, math.inf))
    moved = replace(sample, value=sample.value + by, low=sample.low + by, high=sample.high + by)
    assert word(replace(statement, against=statement.against + by), moved) == word(statement, sample)


@given(statements, samples)
def test_fewer_than_five_trials_never_decide(statement: Statement, sample: Sample) -> None:
    verdict = decide(statement, sample)
    assert verdict.reason
    if sample.n < 5:
        assert verdict.word == "inconclusive"
