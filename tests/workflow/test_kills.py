"""The kill campaign of `make kills` on a tiny run: one blow of each kind."""

import random
import shutil

import pytest
from kills import IDENTICAL, KINDS, LEFT_OVER, Run, compared
from project import Project


@pytest.mark.nightly
def test_whatever_is_killed_the_bytes_are_the_same_and_nothing_is_left(
    finished: Project, copied: Project
) -> None:
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
