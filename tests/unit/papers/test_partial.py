"""Sets of which only a part can be passed on are named as such wherever a paper is measured on them."""

import fnmatch

import pytest
from project import ROOT

from leakbench.papers.work import Work, read_papers

PARTS = ("cifar100", "lfw-32")
WORKS = read_papers(ROOT / "papers")


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_a_work_that_is_measured_on_a_part_says_so(work: Work, name: str) -> None:
    files = [*(work.folder / "experiments").glob("*.yaml"), *work.folder.glob("[mc]*.yaml")]
    if work.name != "leakbench" and any(name in file.read_text() for file in files):
        assert any(fnmatch.fnmatchcase(name, pattern) for pattern in work.paper.partial)
