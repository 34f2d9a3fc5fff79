"""The scorecard of what is recorded: what differs is explained, no refutation is hidden."""

import pandas as pd
import pytest
from project import ROOT
from recorded_world import recorded

from leakbench.papers.entries import entries
from leakbench.papers.scorecard.kinds import CORE, KINDS, OTHERS, kinds
from leakbench.papers.scorecard.scorecard import RECOGNISABLE, Card
from leakbench.papers.work import Work, read_papers

# What a reason says of a run that is too short.
TOO_SHORT = "of the published length, of which|the step size falls again"


@pytest.fixture(scope="module")
def works() -> list[Work]:
    return read_papers(ROOT / "papers")


@pytest.fixture(scope="module")
def card(works: list[Work]) -> pd.DataFrame:
    scales = recorded()
    return Card(works, scales, scales[-1]).frame()


def test_every_recorded_statement_that_differs_is_explained(card: pd.DataFrame) -> None:
    rows = card[card["verdict"] == "differs"]
    assert len(rows) >= 4
    assert rows.loc[rows["examined"] == "Not examined yet.", "id"].tolist() == []


def test_no_printed_failure_beside_a_recorded_success_is_left_open_for_its_length(
    works: list[Work], card: pd.DataFrame
) -> None:
    every = {entry.id: entry for work in works for entry in entries(work)}
    failing = {
        key for key, entry in every.items() if entry.reading.hidden or entry.words["published"] == "failure"
    }
    rows = card[card["id"].isin(failing)].set_index("id")
    open_ = rows[rows["reason"].str.contains(TOO_SHORT) & (rows["verdict"] == "inconclusive")]

    # What a row of images measures, whatever its metric, is a success where their SSIM is one.
    def condition(key: str) -> tuple[str, ...]:
        row = every[key].row
        return tuple(word for name, word in row.words.items() if name != "metric") if row else (key,)

    read = rows[(rows["metric"] == "ssim") & (pd.to_numeric(rows["ci_low"]) >= RECOGNISABLE)].index
    successes = {condition(key) for key in read}
    assert len(successes) >= 3
    left = [
        key
        for key, row in open_.iterrows()
        if condition(str(key)) in successes and "may stop early" not in row["reason"]
    ]
    # A claim that an attack fails is missed where its whole interval is.
    missed = [
        key
        for key, row in open_.iterrows()
        if row["metric"] == "claim" and row["ci_low"] > every[str(key)].against.value
    ]
    assert left + missed == []


def test_the_readme_has_the_counts_of_reproduced_results(works: list[Work], card: pd.DataFrame) -> None:
    found = kinds(card, [work.name for work in works if work.paper.core])
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for kind, meaning in KINDS.items():
        assert f"| {kind} | {meaning} | {found[CORE][kind]} | {found[OTHERS][kind]} |" in readme
