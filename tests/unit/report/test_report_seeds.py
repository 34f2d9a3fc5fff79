"""What other seeds say, as the page shows it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from leakbench.base.errors import UserError
from leakbench.results.report import Section, page
from leakbench.results.report.seeds import held, seeds
from leakbench.results.report.source import commits

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
