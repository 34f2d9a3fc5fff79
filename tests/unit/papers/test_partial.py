"""Sets of which only a part can be passed on are named as such wherever a paper is measured on them."""

import fnmatch
from dataclasses import replace

import pytest
from worlds import works

from leakbench.papers.work import Work

PARTS = ("cifar100", "lfw-32")


def measured(work: Work) -> list[str]:
    """Return the parts of sets on which a work is measured."""
    files = [*(work.folder / "experiments").glob("*.yaml"), *work.folder.glob("[mc]*.yaml")]
    return [name for name in PARTS if any(name in file.read_text() for file in files)]


def said(work: Work) -> bool:
    """Return whether a work names every part on which it is measured."""
    return all(
        any(fnmatch.fnmatchcase(name, pattern) for pattern in work.paper.partial) for name in measured(work)
    )


ON_A_PART = sorted(name for name, work in works().items() if name != "leakbench" and measured(work))


@pytest.mark.parametrize("name", ON_A_PART)
def test_a_work_that_is_measured_on_a_part_says_so(name: str) -> None:
    work = works()[name]
    assert said(work)
    # Guards the line above.
    assert not said(replace(work, paper=work.paper.model_copy(update={"partial": {}})))


def test_some_works_are_measured_on_a_part() -> None:
    assert ON_A_PART == ["agic", "fedkl", "grnn", "ilrg", "peeling"]
