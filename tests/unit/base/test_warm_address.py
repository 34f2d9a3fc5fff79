"""Where the warm process is met: a folder that only its user may enter, or none."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warm_runs import Run, until

from leakbench.base.errors import UserError
from leakbench.base.processes import process, warm
from leakbench.base.processes.process import OWNER
from leakbench.base.processes.warm import run_warm
from leakbench.jobs import cli


@pytest.mark.parametrize("main", [True, False])
def test_only_a_runs_owner_leads_jobs_to_a_warm_process(main: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((OWNER, "123"), ("PATH", "/elsewhere")):
        monkeypatch.setenv(name, value)
    for name in process._CONTAINERS:
        monkeypatch.delenv(name, raising=False)
    warm.lead(main)
    assert process.owner_of_the_run() == (os.getpid() if main else None)
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/elsewhere"


def test_an_environment_that_no_path_can_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/co:lon/bin/python")
    with pytest.raises(UserError, match="co:lon/bin: a path with"):
        warm.lead(True)


def test_a_checkout_that_the_locale_cannot_write_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/\udcc3\udcbc")
    with pytest.raises(UserError, match=r"^/\\udcc3\\udcbc: this locale cannot write the path"):
        warm.lead(True)


def inside(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process stand where the run's clients stand."""
    monkeypatch.setenv(OWNER, str(run.owner.pid))
    monkeypatch.setattr(tempfile, "tempdir", str(run.temporary))
    for name in process._CONTAINERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(warm, "_leave_behind", lambda *_: pytest.fail("a refused folder was used"))


@pytest.mark.parametrize(
    ("name", "value"),
    [*((OWNER, value) for value in ("", "no number", "-1")),
     *((name, "image.sif") for name in process._CONTAINERS)],
)  # fmt: skip
def test_without_an_owner_and_in_a_container_nothing_is_started(
    run: Run, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container has libraries of its own."""
    inside(run, monkeypatch)
    monkeypatch.setenv(name, value)
    assert run_warm(["plan"]) is None
    assert list(run.temporary.iterdir()) == []


@pytest.mark.parametrize("what", [0o755, 0o770, 0o701, 0o777, "user", "link", "file", "long"])
def test_a_folder_of_others_is_refused(run: Run, what: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(run, monkeypatch)
    if what == "user":
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        run.folder.mkdir(mode=0o700)
    elif what == "link":
        (run.temporary / "elsewhere").mkdir(mode=0o700)
        run.folder.symlink_to("elsewhere")
    elif what == "file":
        run.folder.touch(mode=0o600)
    elif what == "long":
        # The address of a socket has room for some hundred letters.
        (run.temporary / ("x" * 120)).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(run.temporary / ("x" * 120)))
    else:
        run.folder.mkdir()
        run.folder.chmod(int(what))
    assert run_warm(["plan"]) is None
    assert not isinstance(what, int) or list(run.folder.iterdir()) == []


def test_containers_with_like_processes_share_no_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(run, monkeypatch)
    own = process.folder_of_the_run(run.owner.pid)
    assert process.folder_of_the_run(run.owner.pid) == own
    for name, value in (("os.readlink", "pid:[1]"), ("leakbench.base.processes.process.born", 1)):
        with monkeypatch.context() as other:
            other.setattr(name, lambda _, value=value: value)
            assert process.folder_of_the_run(run.owner.pid) != own


def test_the_folder_is_closed_to_others(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    inside(run, monkeypatch)
    before = os.umask(0)
    try:
        warm.socket_of(run.owner.pid)
    finally:
        os.umask(before)
    assert run.folder.stat().st_mode & 0o777 == 0o700


def test_of_jobs_at_once_one_leaves_a_process_behind(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    leave = warm._leave_behind
    inside(run, monkeypatch)
    started: list[list[str]] = []
    monkeypatch.setattr(warm, "_leave_behind", leave)
    gone = subprocess.Popen(["true"])

    def popen(command: list[str], **_: Any) -> Any:
        started.append(command)
        return SimpleNamespace(pid=os.getpid() if len(started) == 1 else gone.pid)

    monkeypatch.setattr(subprocess, "Popen", popen)
    assert [run_warm(["plan"]) for _ in range(3)] == [None] * 3
    assert len(started) == 1
    # Who was to be it was killed before it could serve; that nobody has asked after it yet does not matter.
    (warm.socket_of(run.owner.pid).parent / "starting").write_text(str(gone.pid))
    until(lambda: not process.alive(gone.pid), 10)
    assert run_warm(["plan"]) is None
    assert len(started) == 2
    gone.wait()


def test_a_door_that_closes_is_followed_by_another(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child of a killed process may hold the door open for a moment; a job takes it for alive."""
    leave = warm._leave_behind
    inside(run, monkeypatch)
    monkeypatch.setattr(warm, "_leave_behind", leave)
    started: list[list[str]] = []
    living = SimpleNamespace(pid=os.getpid())
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command) or living)
    address = warm.socket_of(run.owner.pid)
    (address.parent / "starting").write_text("the killed one")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(address))
        door.listen()
        monkeypatch.setattr(warm, "follow", lambda *_: door.close() or throw(ConnectionResetError()))
        assert run_warm(["plan"]) is None
    assert len(started) == 1
    assert not address.exists()


def throw(problem: Exception) -> None:
    raise problem


def test_a_job_that_asks_for_threads_runs_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(cli, "run_warm", lambda argv, _: asked.append(list(argv)) or 0)
    monkeypatch.setattr(cli, "_run", lambda _: 0)
    for words in (["--threads", "1"], ["--threads=1"]):
        assert cli.main(["plan", *words]) == 0
    assert asked == []
    assert cli.main(["plan"]) == 0
    assert asked == [["plan"]]
