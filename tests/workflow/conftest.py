"""One finished project for the whole session; a test that changes something takes a copy."""

from pathlib import Path

import pytest
from project import Project, bare_project, tiny_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose every result is made, and run.log of making it. Do not change it: see `copied`."""
    project = tiny_project(tmp_path_factory.mktemp("workflow"))
    ran = project.snakemake("--printshellcmds")
    assert ran.rc == 0, ran.text[-3000:]
    project.path("run.log").write_text(ran.text)
    return project


@pytest.fixture
def copied(finished: Project, tmp_path: Path) -> Project:
    """Return a copy of the finished project that a test may change."""
    return finished.copy(tmp_path)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return this repository's own catalogue, all experiments of it, where nothing has run."""
    return Project(bare_project(tmp_path_factory.mktemp("everything"), experiments=True), None)
