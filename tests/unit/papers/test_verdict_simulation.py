"""How often the rule of verdicts is wrong, by simulation."""

from collections import Counter

import numpy as np
import pytest
import verdict_simulation as drawing
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import daily, first_of_each
from project import ROOT

from leakbench.metrics.interval import interval
from leakbench.papers.verdicts.sample import Ordering, Sample, Statement, unseen
from leakbench.papers.verdicts.verdict import Word, decide

# The first family of each kind of distribution, which is the first word of its name.
OF_EACH_KIND = first_of_each(drawing.FAMILIES, lambda name: name.replace(",", " ").split()[0])


def test_the_page_has_the_table_of_tolerances() -> None:
    assert drawing.table() in (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")


def repeats_of(n: int) -> int:
    """Return how many samples of n trials to draw: the bootstrap, from 20 on, is slow."""
    return 800 if n < 20 else 250


def five_percent(n: int) -> float:
    """Return 5 % and three standard errors of it."""
    return 0.05 + 3 * (0.05 * 0.95 / repeats_of(n)) ** 0.5


def wrong(family: object, n: int) -> tuple[float, float]:
    return drawing.wrong(family, n, repeats_of(n), np.random.default_rng(n))


@pytest.mark.parametrize("name", daily(drawing.FAMILIES, OF_EACH_KIND))
@pytest.mark.parametrize("n", [5, 10, 20, 50])
def test_wrong_words_are_rare(name: str, n: int) -> None:
    family = drawing.FAMILIES[name]
    assert max(wrong(family, n)) <= five_percent(n)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_fewer_than_five_trials_are_never_wrong(n: int) -> None:
    found = drawing.words(drawing.normal(1), n, [0.0, 10.0], 50, np.random.default_rng(n))
    assert all(said == {"inconclusive": pytest.approx(1)} for said in found.values())


@pytest.mark.parametrize("name", drawing.HARD)
@pytest.mark.parametrize("n", [5, 10, 20])
def test_what_is_rare_never_makes_a_number_differ(name: str, n: int) -> None:
    differs, _ = wrong(drawing.HARD[name], n)
    assert differs <= five_percent(n)


@pytest.mark.parametrize("name", daily(drawing.FAMILIES, OF_EACH_KIND))
@pytest.mark.parametrize(("n", "rounds"), [(5, 1), (5, 2), (10, 3), (20, 3), (20, 5)])
def test_few_rounds_of_another_update_seldom_seem_worse(name: str, n: int, rounds: int) -> None:
    rng = np.random.default_rng([n, rounds])
    assert drawing.no_gain(drawing.FAMILIES[name], n, rounds, repeats_of(n), rng) <= five_percent(n)


def test_rare_failures_are_what_no_rule_can_see() -> None:
    # As often as five trials miss a fifth of the outcomes, and three tolerances with them.
    family = drawing.HARD["bimodal, 30 and 10 dB, 20 % fail"]
    assert unseen(5) > 0.2 > unseen(20)
    found = drawing.words(family, 5, [-3.0], repeats_of(5), np.random.default_rng(5))
    assert found[-3.0]["reproduced"] == pytest.approx(0.8**5, abs=0.05)


@pytest.mark.parametrize("n", daily([5, 10, 15, 50], [5, 50]))
@pytest.mark.parametrize("networks", [1, 3, 5])
@pytest.mark.parametrize("effect", [0.0, 1.0, 3.0])
def test_wrong_words_are_rare_on_one_three_and_five_networks(n: int, networks: int, effect: float) -> None:
    repeats = 600 if n < 20 or networks > 1 else 250
    found = drawing.of_networks(n, networks, effect, repeats, np.random.default_rng([n, networks]))
    # The word on one network speaks of that network.
    of = "own " if networks == 1 else ""
    limit = 0.05 + 3 * (0.05 * 0.95 / repeats) ** 0.5
    assert found[f"{of}differs"] <= limit
    assert found[f"{of}reproduced"] <= limit
    assert found[f"{of}covers"] >= 0.93 - 2 * (0.07 * 0.93 / repeats) ** 0.5


@pytest.mark.parametrize("networks", [3, 5])
@pytest.mark.parametrize(("a", "b"), [(5000, 5000), (9500, 500), (20, 20), (18, 2), (6, 4), (2, 2)])
def test_intervals_of_shares_cover_those_of_all_networks(networks: int, a: float, b: float) -> None:
    found = drawing.shares_of_networks(networks, a, b, 600, np.random.default_rng(networks))
    assert found >= 0.93 - 2 * (0.07 * 0.93 / 600) ** 0.5


def test_one_network_says_little_of_others() -> None:
    found = drawing.of_networks(15, 1, 3.0, 400, np.random.default_rng(0))
    assert found["covers"] < 0.5
    assert found["own covers"] > 0.92


def test_an_unfinished_schedule_makes_no_word_wrong() -> None:
    assert drawing.unfinished(10, True, 200, np.random.default_rng(0)) == 0
    # The same runs mislead a rule that does not know of the fall to come.
    assert drawing.unfinished(10, False, 200, np.random.default_rng(0)) > 0.4


@pytest.mark.parametrize("n", [5, 10, 20])
def test_shorter_runs_refute_printed_failures_and_little_else(n: int) -> None:
    rng = np.random.default_rng(n)
    assert drawing.refuted(n, 0.5, repeats_of(n), rng) <= five_percent(n)
    assert drawing.refuted(n, 0.3, 200, rng) == 0
    assert drawing.refuted(n, 0.9, 200, rng) >= 0.9
    assert drawing.outcome_refuted(n, 0.5, 2000, rng) <= 0.05
    assert drawing.outcome_refuted(n, 0.95, 2000, rng) >= 0.75


@pytest.mark.parametrize(("n", "least"), [(5, 0.03), (10, 0.30), (20, 0.92)])
def test_true_reproductions_are_recognised(n: int, least: float) -> None:
    found = drawing.words(drawing.normal(4), n, [0.0], repeats_of(n), np.random.default_rng(n))
    assert found[0.0]["reproduced"] >= least


@pytest.mark.parametrize(("n", "decibels"), [(5, 20), (10, 12), (20, 9), (50, 6)])
def test_large_differences_are_recognised(n: int, decibels: float) -> None:
    found = drawing.words(drawing.normal(2), n, [decibels / 1.5], 100, np.random.default_rng(n))
    assert found[decibels / 1.5]["differs"] >= 0.9


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize("name", ["normal, deviation 4 dB", "skewed, exponential, 2 tol", "share of 0.5"])
def test_claims_at_their_threshold(name: str, n: int) -> None:
    family, rng = drawing.FAMILIES[name], np.random.default_rng(n)
    repeats = repeats_of(n)
    found: Counter[tuple[str, Word]] = Counter()
    for values in family.draw(rng, (repeats, n)):
        sample = Sample(float(values.mean()), *interval(values, rng=rng), n)
        for relation in (">=", "<"):
            found[relation, decide(Statement(relation, family.mean, bounds=family.bounds), sample).word] += 1
    for relation in (">=", "<"):
        assert found[relation, "differs"] / repeats <= five_percent(n)
        # The tail of few skewed values makes a claim that is false by a hair hold in more than 2.5 %.
        most = 0.14 if "skewed" in name else five_percent(n)
        assert found[relation, "reproduced"] / repeats <= most


Row = tuple[Statement, int, float, float, float]


def row(rng: np.random.Generator) -> Row:
    """Draw a row: what is printed, trials, deviation, the paired difference and its deviation."""
    off = float(rng.choice([0.0, rng.normal(0, 6), rng.normal(0, 12)]))
    printed = Statement(
        "=", 25 - off, rounding=0.005, tolerance=1.5, bounds=(0, 60), sign=int(rng.choice([0, 1]))
    )
    n, deviation = int(rng.choice([5, 10, 10, 20])), float(rng.choice([1, 2, 4, 6]))
    return printed, n, deviation, float(rng.normal(2, 4)), float(rng.choice([1, 2, 4]))


def verdict(rng: np.random.Generator, drawn: Row) -> Word:
    printed, n, deviation, ahead, spread = drawn
    values, pairs = rng.normal(25, deviation, n), rng.normal(ahead, spread, n)
    ordering = Ordering(float(pairs.mean()), *interval(pairs, rng=rng), n, equal_budget=True)
    return decide(
        printed, Sample(float(values.mean()), *interval(values, rng=rng), n, ordering=ordering)
    ).word


@settings(max_examples=3, deadline=None, derandomize=True)
@given(st.integers(0, 2**31), st.integers(1, 2**31))
def test_other_seeds_do_not_turn_a_word_into_another(seed: int, constant: int) -> None:
    rows = [row(np.random.default_rng([seed, number])) for number in range(1000)]
    before, after = (
        [verdict(np.random.default_rng([seed + added, number]), drawn) for number, drawn in enumerate(rows)]
        for added in (0, constant)
    )
    decided = [pair for pair in zip(before, after, strict=True) if "inconclusive" not in pair]
    assert len(decided) > 250
    changed = sum(first != second for first, second in decided)
    # 2 %, known to 0.75 points by some 350 rows.
    assert changed / len(decided) <= 0.02 + 0.015
