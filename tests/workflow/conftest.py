"""One finished project for the whole session; a test that changes something takes a copy."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from project import Project, bare_project, tiny_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose every result is made, and run.log of making it. Do not change it: see `copied`.

    The workers of one session share it: whichever comes first makes it, the others wait.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = shared / "finished"
    with (shared / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            project = tiny_project(folder)
            ran = project.snakemake("--printshellcmds")
            assert ran.rc == 0, ran.text[-3000:]
            project.path("run.log").write_text(ran.text)
            (folder / "made").touch()
    return Project(folder / "tiny project", folder / "local data")


@pytest.fixture
def copied(finished: Project, tmp_path: Path) -> Project:
    """Return a copy of the finished project that a test may change."""
    return finished.copy(tmp_path)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return this repository's own catalogue, all experiments of it, where nothing has run."""
    return Project(bare_project(tmp_path_factory.mktemp("everything"), experiments=True), None)
