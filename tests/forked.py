"""Snakemake and the jobs of small projects, forked from one process that has their libraries loaded.

    python tests/forked.py PROGRAM WORDS…

does what `python -m PROGRAM WORDS…` does for snakemake and leakbench. Loading the libraries costs more than
what most of these runs compute. A fork forgets leakbench, so that it takes its project's own code, as a
process of its own does.
Where FROM names no session, or while its process still loads, Snakemake starts as ever. All workers of a test
session share the process, which is gone soon after the session.
"""

import atexit
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from leakbench.base.processes.process import OWNER, alive, folder_of_the_run
from leakbench.base.processes.warm import run_warm

# Holds the process that owns the test session.
FROM = "LEAKBENCH_TESTS"


@cache
def owner() -> str:
    """Return the process that owns the test session; let the first that asks start the one to fork from."""
    session = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = folder_of_the_run(session)
    try:
        # By this marker a job does not leave a warm process of its own behind.
        (folder / "starting").touch(exist_ok=False)
    except FileExistsError:
        return str(session)
    command = [sys.executable, __file__, "--serve", str(session), str(folder / "socket")]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    (folder / "starting").write_text(str(server.pid))
    return str(session)


def _serve(session: int, address: Path) -> None:
    from leakbench.base.processes.process import prepare
    from leakbench.jobs.warm_process import LIBRARIES, serve

    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    libraries = [path for path in sys.path[1:] if path not in inherited]

    def run(argv: Sequence[str]) -> int:
        for name in [name for name in sys.modules if name.partition(".")[0] == "leakbench"]:
            del sys.modules[name]
        sys.path[:] = [os.getcwd(), *os.environ.get("PYTHONPATH", "").split(os.pathsep), *libraries]
        if argv[0] != "snakemake":
            from leakbench.jobs.cli import run as verb

            # A command of its own belongs to no run, as if somebody had typed it.
            if os.environ.get(OWNER) == os.environ.get(FROM):
                del os.environ[OWNER]
            return verb(argv)
        from snakemake.cli import main

        # Its jobs look for the process to fork from where their run's own would be. What is there is of a
        # killed process of this number.
        shutil.rmtree(folder_of_the_run(os.getpid()))
        folder = folder_of_the_run(os.getpid())
        (folder / "socket").symlink_to(address)
        sys.argv = list(argv)
        try:
            main()
        finally:
            shutil.rmtree(folder)
            # A fork ends without what an interpreter does at its end: here, to remove Snakemake's own folder.
            atexit._run_exitfuncs()

    prepare(1)
    serve(session, address, run, [*LIBRARIES, "snakemake.cli"])


def _fork(words: Sequence[str]) -> int:
    session = os.environ.get(FROM, "")
    server = folder_of_the_run(int(session)) / "starting" if session else None
    code = None
    if server and alive(int(server.read_text() or 0)):
        os.environ[OWNER] = session
        code = run_warm(words if words[0] == "snakemake" else words[1:])
    if code is None:
        os.execv(sys.executable, [sys.executable, "-m", *words])
    return code


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        sys.exit(_serve(int(sys.argv[2]), Path(sys.argv[3])))
    sys.exit(_fork(sys.argv[1:]))
