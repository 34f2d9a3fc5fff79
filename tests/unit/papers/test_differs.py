"""papers/<work>/differs.yaml: every recorded statement that differs has its entry."""

from collections.abc import Mapping

import pytest
from project import ROOT

from leakbench import reference
from leakbench.papers.work import Work, read_papers
from leakbench.scorecard.evidence import Evidence, Lines
from leakbench.scorecard.quantity import NotMeasured
from leakbench.scorecard.scorecard import Card


def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, and of a run that measured nothing."""
    known = frozenset(path.stem for path in (ROOT / "papers").glob("*/experiments/*.yaml"))
    scales: dict[str, dict[str, Lines]] = {}
    shares: dict[str, dict[str, Mapping[str, Mapping[str, float]]]] = {}
    for scale, name, frame, kept, record in reference.tables(reference.files(ROOT, "*")):
        scales.setdefault(scale, {})[name] = Lines(name, frame, kept)
        shares.setdefault(scale, {})[name] = record.get("shares", {})

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    found = [
        Evidence(scale, lines, shares=shares[scale], known=known, fact=nothing, exhibit=nothing)
        for scale, lines in scales.items()
    ]
    return [*found, Evidence("none", {}, known=known, fact=nothing, exhibit=nothing)]


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
