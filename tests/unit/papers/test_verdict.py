"""What decides a verdict, one condition at a time (verdicts.yaml)."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leakbench.papers.verdicts.sample import Ordering, Sample, Statement, unseen
from leakbench.papers.verdicts.schedule import PartialRun
from leakbench.papers.verdicts.verdict import Verdict, decide, decide_outcome, decide_text

TABLE = yaml.safe_load(Path(__file__).with_name("verdicts.yaml").read_text())
CASES = [
    pytest.param(case, id=f"{shown} {place}")
    for shown, cases in TABLE["cases"].items()
    for place, case in enumerate(cases)
]


def of(kind: str, said: Any) -> dict[str, Any]:
    """Return the fields that a case gives: a base's, a base's with some others, or its own."""
    if isinstance(said, dict):
        return said
    name, more = (said, {}) if isinstance(said, str) else said
    return TABLE["bases"][kind][name] | more


def schedule(said: Any) -> PartialRun | None:
    if said is None:
        return None
    fields = of("schedule", said)
    return PartialRun(**fields | {"ahead": tuple(fields.get("ahead", ()))})


def statement(said: Any) -> Statement:
    fields = of("print", said)
    return Statement(**{key: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})


def sample(said: Any) -> Sample:
    """`values` are given as runs: a value and how often it is there."""
    fields = dict(of("ours", said))
    if "ordering" in fields:
        order = dict(of("ordering", fields["ordering"]))
        fields["ordering"] = Ordering(**order | {"schedule": schedule(order.get("schedule"))})
    runs = fields.get("values", ())
    fields["values"] = tuple(
        v for run in runs for v in ([run[0]] * run[1] if isinstance(run, list) else [run])
    )
    fields["schedule"] = schedule(fields.get("schedule"))
    return Sample(**fields | {"nulls": tuple(fields.get("nulls", ()))})


def decided(case: dict[str, Any]) -> Verdict:
    if "fact" in case:
        return decide_text(case["fact"]["ours"], case["fact"]["print"])
    if "outcome" in case:
        told = dict(case["outcome"])
        hits, n = told.pop("hits"), told.pop("of")
        return decide_outcome(
            [True] * hits + [False] * (n - hits), **told | {"schedule": schedule(told.get("schedule"))}
        )
    return decide(statement(case["print"]), sample(case["ours"]))


@pytest.mark.parametrize("case", CASES)
def test_the_word_and_why(case: dict[str, Any]) -> None:
    verdict = decided(case)
    assert verdict.word == case["word"]
    assert verdict.reason == case.get("reason", verdict.reason)
    told = "reason" in case
    assert verdict.kind == case.get("kind", "" if told else verdict.kind)
    assert verdict.weighed == case.get("weighed", True if told else verdict.weighed)


def test_unseen_outcomes_are_those_that_n_trials_miss_once_in_twenty() -> None:
    for n in (1, 5, 10, 50):
        assert (1 - unseen(n)) ** n == pytest.approx(0.05)


def word(statement: Statement, sample: Sample) -> str:
    return decide(statement, sample).word


numbers = st.floats(-1e6, 1e6)
widths = st.floats(0, 1e6)
statements = st.builds(
    Statement, st.sampled_from(["=", ">", ">=", "<", "<="]), numbers, rounding=st.floats(0, 10),
    std=st.none() | st.floats(0, 10), n=st.none() | st.integers(0, 50), tolerance=st.floats(0, 100),
    bounds=st.sampled_from([(-math.inf, math.inf), (0.0, math.inf), (-1e6, 1e6)]), success=st.booleans(),
    sign=st.sampled_from([-1, 0, 1]),
)  # fmt: skip
spans = numbers, widths, widths, st.integers(0, 50)
orderings = st.none() | st.builds(
    lambda value, down, up, n, equal: Ordering(value, value - down, value + up, n, equal),
    *spans, st.booleans(),
)  # fmt: skip
samples = st.builds(
    lambda value, down, up, n, beats, ordering: Sample(
        value, value - down, value + up, n, beats_null=beats, ordering=ordering
    ),
    *spans, st.sampled_from([None, True, False]), orderings,
)  # fmt: skip


@given(statements, samples, widths, widths)
def test_widening_the_interval_never_turns_one_decided_word_into_the_other(
    statement: Statement, sample: Sample, down: float, up: float
) -> None:
    wider = replace(sample, low=sample.low - down, high=sample.high + up)
    assert {word(statement, sample), word(statement, wider)} != {"reproduced", "differs"}


@given(statements, samples, numbers)
def test_moving_both_alike_changes_nothing(statement: Statement, sample: Sample, by: float) -> None:
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
