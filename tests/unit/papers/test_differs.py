"""papers/<work>/differs.yaml: every recorded statement that differs has its entry."""

import pytest
from project import ROOT
from recorded_world import recorded

from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work, read_papers


@pytest.fixture(scope="module")
def works() -> list[Work]:
    return read_papers(ROOT / "papers")


def test_every_recorded_statement_that_differs_is_explained(works: list[Work]) -> None:
    scales = recorded()
    card = Card(works, scales, scales[-1]).frame()
    rows = card[card["verdict"] == "differs"]
    assert len(rows) >= 4
    assert rows.loc[rows["examined"] == "Not examined yet.", "id"].tolist() == []


def test_what_was_tested_says_what_came_out(works: list[Work]) -> None:
    entries = {key: why for work in works for key, why in work.differs.items()}
    assert len(entries) >= 4
    for key, why in entries.items():
        for words in (why.hypothesis, why.variant, why.outcome):
            assert not words.rstrip().endswith("."), f"{key}: the scorecard adds the full stop"
