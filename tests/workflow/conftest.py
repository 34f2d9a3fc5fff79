"""One finished project for the whole session; a test that changes something takes a copy."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from project import Project, tiny_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose every result is made. Do not change it: see `copied`."""
    project = tiny_project(tmp_path_factory.mktemp("workflow"))
    ran = project.snakemake("--printshellcmds")
    assert ran.rc == 0, ran.text[-3000:]
    project.path("run.log").write_text(ran.text)
    return project


@pytest.fixture
def copied(finished: Project, tmp_path: Path) -> Project:
    """Return a copy of the finished project that a test may change."""
    return finished.copy(tmp_path)


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Project]:
    """Return a maker of a project in which nothing has run."""
    return lambda: tiny_project(tmp_path)
