"""Jobs, their callers and the warm process end when they are to end, and leave nothing behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from warm_runs import Run, until

from leakbench.base.processes import process
from leakbench.base.processes.process import alive
from leakbench.jobs.cli import APART

# A verb that works apart has one process less: who keeps its job is the job.
KEPT = pytest.mark.parametrize("verb", [[], [APART]], ids=["kept", "apart"])
DAWDLE = (
    "import os, time; from pathlib import Path\nPath(argv[1]).write_text(str(os.getpid()))\ntime.sleep(600)\n"
)
TIDY = (
    "import signal, sys\nfor n in (signal.SIGTERM, signal.SIGINT): signal.signal(n, lambda n, _: "
    "sys.exit(128 + n))\ntry:\n"
    + "".join(f"    {line}\n" for line in DAWDLE.splitlines())
    + "finally:\n    print('cleaned')\n"
)


def begun(path: Path) -> int:
    """Wait for a dawdling job and return its process."""
    until(lambda: path.is_file() and path.read_text())
    return int(path.read_text())


def passes_on(caller: int) -> bool:
    """Return whether a caller has come to pass signals on: the last of them is one that Python leaves
    alone."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{caller}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (signal.SIGHUP - 1) & 1)


@KEPT
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, TIDY), (signal.SIGINT, TIDY), (signal.SIGTERM, DAWDLE), (signal.SIGHUP, DAWDLE)],
)
def test_a_signal_to_the_caller_ends_the_job(
    served: Run, number: signal.Signals, code: str, verb: list[str], tmp_path: Path
) -> None:
    """Also a job that has no handler yet."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("whoever runs the tests (nohup) has them ignore it, and so do all jobs")
    job = served.client(*verb, code, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    assert worker != job.pid
    # Before it passes signals on, the caller ends by them itself, and the job with it.
    until(lambda: passes_on(job.pid))
    job.send_signal(number)
    out, err = job.communicate(timeout=30)
    assert job.returncode == 128 + number
    assert out == ("cleaned\n" if code == TIDY else "")
    assert err == ""
    until(lambda: not alive(worker), 5)


@KEPT
def test_a_killed_caller_takes_its_job_along(served: Run, verb: list[str], tmp_path: Path) -> None:
    job = served.client(*verb, TIDY, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    job.kill()
    # What the job prints last, it prints as one that was terminated.
    assert job.communicate(timeout=30)[0] == "cleaned\n"
    until(lambda: not alive(worker), 5)
    assert served.ready()


def test_a_job_whose_keeper_is_killed_is_ended_before_it_is_run_again(served: Run, tmp_path: Path) -> None:
    """Two processes must not write one file."""
    job = served.client(DAWDLE, str(tmp_path / "pid"))
    worker = begun(tmp_path / "pid")
    # Before it passes signals on, the caller may not know yet which process the job is.
    until(lambda: passes_on(job.pid))
    keeper = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(keeper, signal.SIGKILL)
    assert job.communicate(timeout=30)[0] == "cold\n"
    assert not alive(worker)


def test_a_job_that_works_apart_and_is_killed_is_run_again(served: Run, tmp_path: Path) -> None:
    job = served.client(APART, DAWDLE, str(tmp_path / "pid"))
    os.kill(begun(tmp_path / "pid"), signal.SIGKILL)
    assert job.communicate(timeout=30)[0] == "cold\n"


def test_no_child_of_a_job_that_works_apart_answers_for_it(served: Run, tmp_path: Path) -> None:
    """The child is an attack's: it has nothing open by which it could tell the caller that all went well."""
    code = (
        "import os, stat, sys\nif not os.fork():\n    files = [stat.S_ISSOCK(os.fstat(int(f)).st_mode) "
        "for f in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{f}')]\n"
        "    print(any(files))\n    sys.stdout.flush()\n    os._exit(0)\nos.wait()\nraise SystemExit(3)"
    )
    job = served.client(APART, code)
    assert job.communicate(timeout=30)[0] == "False\n"
    assert job.returncode == 3


def test_the_warm_process_is_gone_soon_after_its_owner(run: Run) -> None:
    run.serve()
    assert run.server is not None
    run.owner.communicate(b"\n")
    assert run.server.wait(timeout=5) == 0
    assert not run.folder.exists()


def test_a_warm_process_that_still_loads_is_gone_soon_after_its_owner(run: Run, tmp_path: Path) -> None:
    """Also while it is deaf to every signal that it may heed, as an import in C is."""
    deaf = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
    (tmp_path / "slow_library.py").write_text(f"{deaf}open('loading', 'w').close()\ntime.sleep(600)\n")
    address = tmp_path / "of the run" / "socket"
    address.parent.mkdir()
    code = "import sys; from pathlib import Path; from leakbench.jobs.warm_process import serve\n"
    code += "serve(int(sys.argv[1]), Path(sys.argv[2]), len, ['slow_library'])"
    words = [sys.executable, "-c", code, str(run.owner.pid), str(address)]
    path = os.pathsep.join([str(tmp_path), run.environment["PYTHONPATH"]])
    warm = subprocess.Popen(words, cwd=tmp_path, env=run.environment | {"PYTHONPATH": path})
    until((tmp_path / "loading").exists, 60)
    assert warm.poll() is None
    run.owner.communicate(b"\n")
    assert warm.wait(timeout=30) == -signal.SIGKILL
    assert not address.parent.exists()


@pytest.mark.parametrize("code", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_with_its_owner(run: Run, code: signal.Signals) -> None:
    """By SIGTERM, or by SIGKILL where it does not heed that."""
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN); " if code == signal.SIGKILL else ""
    job = subprocess.Popen(
        [sys.executable, "-c", "import signal, sys, time\n"
         "from leakbench.base.processes.process import end_with\n"
         f"{deaf}end_with({run.owner.pid}, 0.5); print('here', flush=True); time.sleep(600)"],
        env=run.environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert job.stdout is not None
    job.stdout.readline()
    assert job.poll() is None
    run.owner.communicate(b"\n")
    assert job.wait(timeout=30) == -code
    job.stdout.close()


def test_a_job_outlives_nobody_but_its_caller(warmed: Run, tmp_path: Path) -> None:
    """The end of the warm process does not break off what still runs."""
    lines = (
        "import time; from pathlib import Path\nPath(argv[1]).write_text('1')\ntime.sleep(2)\nprint('done')"
    )
    job = warmed.client(lines, str(tmp_path / "pid"))
    begun(tmp_path / "pid")
    warmed.owner.communicate(b"\n")
    assert warmed.server is not None
    warmed.server.wait(timeout=5)
    assert job.communicate(timeout=30)[0] == "done\n"
    assert job.returncode == 0


def test_who_has_ended_and_was_not_asked_after_does_not_live() -> None:
    """As the owner of a run whose parent, such as a container's first process, never waits for it."""
    ended = subprocess.Popen(["true"])
    until(lambda: Path(f"/proc/{ended.pid}/stat").read_text().split()[2] == "Z", 10)
    os.kill(ended.pid, 0)
    assert not alive(ended.pid)
    ended.wait()
    assert process.born(ended.pid) == 0
    assert process.born(os.getpid()) >= process.born(os.getppid()) > 0
