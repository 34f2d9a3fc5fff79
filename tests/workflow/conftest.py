"""One finished project for the whole session; a test that changes something takes a copy."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from project import Project, bare_project, tiny_project


def made_once(name: str, make: Callable[[Path], object], factory: pytest.TempPathFactory) -> Path:
    """Return a folder that `make` fills.

    The workers of one session share it: whichever comes first makes it, the others wait.
    """
    own = factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose every result is made, and run.log of making it.

    Do not change it: see `copied`.
    """

    def make(folder: Path) -> None:
        project = tiny_project(folder)
        ran = project.snakemake("--printshellcmds")
        assert ran.rc == 0, ran.text[-3000:]
        project.path("run.log").write_text(ran.text)

    folder = made_once("finished", make, tmp_path_factory)
    return Project(folder / "tiny project", folder / "local data")


@pytest.fixture
def copied(finished: Project, tmp_path: Path) -> Project:
    """Return a copy of the finished project that a test may change."""
    return finished.copy(tmp_path)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return this repository's own catalogue, all experiments of it, where nothing has run."""
    made = made_once("everything", lambda folder: bare_project(folder, experiments=True), tmp_path_factory)
    return Project(made / "tiny project", None)


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the root of the small project where nothing has run. Do not change it."""
    return tiny_project(tmp_path_factory.mktemp("sound")).root


@pytest.fixture
def catalogue(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a sound catalogue: config/ and papers/ to spoil, and the notebooks they name."""
    monkeypatch.delenv("LEAKBENCH_DATA", raising=False)
    for part in ("config", "papers", "notebooks"):
        shutil.copytree(sound / part, tmp_path / part)
    return tmp_path
