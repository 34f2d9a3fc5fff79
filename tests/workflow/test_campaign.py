"""A campaign goes on where its time was up; one of kills ends with the same bytes."""

import random
import shutil

import pytest
from kills import IDENTICAL, KINDS, LEFT_OVER, Run, compared
from project import Project


def campaign(project: Project, minutes: float, *only: str) -> str:
    ran = project.leakbench(
        "campaign", "--scale", "quick", "--minutes", str(minutes), *(["--only", *only] if only else [])
    )
    assert ran.rc == 0, ran.text[-2000:]
    return ran.stdout


def test_a_campaign_that_is_stopped_goes_on_to_the_same_table(copied: Project) -> None:
    table = copied.path("results/quick/tables/tiny.csv")
    before = table.read_bytes()
    shutil.rmtree(copied.path("results"))
    # Four seconds, and twenty in which a stopped run puts its files in order.
    stopped = campaign(copied, 0.4)
    assert "1 experiments of scale quick have no valid record" in stopped
    assert not copied.path("reference/quick/tiny.json").exists()
    assert copied.leftovers() == []
    assert "campaign: tiny is recorded" in campaign(copied, 5)
    assert table.read_bytes() == copied.path("reference/quick/tiny.csv").read_bytes() == before
    assert campaign(copied, 5, "tiny") == "campaign: 0 experiments of scale quick have no valid record\n"


@pytest.mark.nightly
def test_whatever_is_killed_bytes_are_the_same_and_none_is_left(finished: Project, copied: Project) -> None:
    shutil.rmtree(copied.path("results"))
    # Orphans end by themselves within ten seconds, but on a machine that other tests keep busy.
    run = Run(copied.root.resolve(), [], grace=60, environment=copied.variables())
    run.disturb(KINDS, 0.5, random.Random(0))
    assert run.struck == dict.fromkeys(KINDS, 1)
    told = compared(copied.root, finished.root)
    assert len(told) >= 10
    assert set(told.values()) <= {IDENTICAL, LEFT_OVER}, told
    assert list(told.values()).count(IDENTICAL) >= 10
    assert copied.leftovers() == []
