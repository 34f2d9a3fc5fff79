"""Numbers, result tables and other seeds as the page arranges them."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakbench.base.errors import UserError
from leakbench.results.report.numbers import count, interval, number, percent
from leakbench.results.report.page import page
from leakbench.results.report.results import results
from leakbench.results.report.script import commits
from leakbench.results.report.section import Section
from leakbench.results.report.seeds import held, seeds


def test_lines_of_the_whole_federation_have_no_client_and_tell_the_last_round() -> None:
    shared = {
        "dataset": "mnist", "victim": "v", "federation": "f", "attack": "a", "checkpoint": 0,
        "convention": "standard", "median": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 3, "failure_rate": 0.0,
    }  # fmt: skip
    lines = [
        {"defence": defence, "client": client, "local_samples": size, "baseline": baseline, "metric": metric}
        | {"mean": mean, "unit": unit, "round": after}
        for defence in ("none", "sign")
        for client, size, baseline, metric, mean, unit, after in [
            (0, 16, "", "label_accuracy", 0.7, "image", np.nan),
            (0, 16, "random-gradient", "label_accuracy", 0.2, "image", np.nan),
            (np.nan, np.nan, "snapshot", "accuracy", 0.3, "model", 1),
            (np.nan, np.nan, "", "accuracy", 0.8, "model", 2),
        ]
    ]
    found = results(pd.DataFrame([shared | line for line in lines]))
    assert found.columns == ["defence", "k"]
    assert [(row.condition, row.metric, row.mean) for row in found.rows] == [
        (["none", "16"], "label_accuracy", "0.7"),
        (["sign", "16"], "label_accuracy", "0.7"),
        (["none", ""], "accuracy", "0.8"),
        (["sign", ""], "accuracy", "0.8"),
    ]
    assert found.nulls == ["a random gradient attacked"]
    assert [row.nulls for row in found.rows] == [["0.2"], ["0.2"], [""], [""]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"), ("21.495", "21.5"), (-3, "−3"), (1234567, "1,234,567"), (0, "0"),
        (1e-7, "1e−07"),
        (None, ""), ("", ""), (math.nan, ""), (math.inf, "∞"), (-math.inf, "−∞"),
        ("layer=dense", "layer=dense"),
    ],
)  # fmt: skip
def test_number(value: object, text: str) -> None:
    assert number(value) == text


def test_intervals_percents_and_counts() -> None:
    assert (interval(0.5, "1.25"), interval(0.5, math.nan)) == ("[0.5, 1.25]", "")
    assert (percent(0.125), percent(math.nan), count(200.0), count("10")) == ("12.5 %", "", "200", "10")


FACTS = {"scale": "quick"}


def row(key: str, raised: int, verdict: str, headline: str = "") -> dict[str, Any]:
    return {
        "id": key, "class": "result", "scale": "standard", "raised": raised, "seeds": str(raised),
        "verdict": verdict, "measured": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 10, "headline": headline,
    }  # fmt: skip


@pytest.fixture
def rows() -> pd.DataFrame:
    return pd.DataFrame([
        row("same", 0, "reproduced"), row("same", 1, "reproduced"), row("same", 2, "reproduced"),
        row("turns", 0, "reproduced"), row("turns", 1, "differs"), row("turns", 2, "reproduced"),
        row("open", 0, "reproduced"), row("open", 1, "inconclusive"), row("open", 2, "reproduced"),
        row("head", 0, "reproduced", "It leaks 0.5."), row("head", 1, "inconclusive", "It leaks 0.6."),
    ])  # fmt: skip


def test_headlines_come_first_then_the_rows_that_change(rows: pd.DataFrame) -> None:
    (found,) = seeds(rows)
    assert found.raised == [0, 1, 2]
    assert [(line.id, line.text, line.changes) for line in found.statements] == [
        ("head", "It leaks 0.5.", True), ("turns", "turns", True), ("open", "open", True),
    ]  # fmt: skip
    # All seeds decide `same` and `turns`.
    assert (found.decided, found.turned) == (2, 1)
    assert held([found])["head"] == "holds with 1 of 2 seeds"


def test_the_page_says_how_often_a_verdict_changes(
    rows: pd.DataFrame, card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    card.loc[card["headline"] != "", "id"] = "head"
    text = " ".join(page(card, [section()], FACTS | {"seeded": rows}).split())
    assert "All seeds decide 2 rows of the scorecard; 1 of them has another verdict" in text
    assert "(50.0 %)" in text
    assert "holds with 1 of 2 seeds" in text
    assert 'id="seeds"' not in page(card, [], FACTS | {"seeded": rows.iloc[:0]})
    assert "no other seed recorded" in page(card, [], FACTS)


def test_a_commit_is_a_link_where_the_citation_names_an_address(
    tmp_path: Path, card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    assert commits(tmp_path) == ""
    (tmp_path / "CITATION.cff").write_text("repository-code: https://example.org/a/b.git\n")
    facts = FACTS | {"commits": commits(tmp_path)}
    link = '<a href="https://example.org/a/b/commit/abc1234"><code>abc1234</code></a>'
    assert link in page(card, [section()], facts)
    assert "commit <code>abc1234</code>" in page(card, [section()], FACTS)
    (tmp_path / "CITATION.cff").write_text("repository-code: javascript:alert(1)\n")
    with pytest.raises(UserError, match=r"repository-code: .* is no https address"):
        commits(tmp_path)
