"""A job's process: its settings before libraries are loaded, its owner, its end and the commit it runs."""

import ctypes
import hashlib
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

# The environment variable with the number of the process that owns the run. The Snakefile sets it to
# Snakemake's own process.
OWNER = "LEAKBENCH_WARM"
_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT = 1 << 30
_DIE_WITH_PARENT = 1
# Variables that choose the instructions with which libraries compute.
INSTRUCTIONS = (
    "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES",
)  # fmt: skip
_LIBC = ctypes.CDLL(None)


class Stopped(SystemExit):
    """The end of a job that a scheduler or a person stops by a signal; its code is 128 + the signal."""


def stop(number: int, _: object) -> NoReturn:
    """Handle the signal `number`. As an exception, it lets a half-written file be removed."""
    raise Stopped(128 + number)


def prepare(threads: int) -> None:
    """Fix the number of threads, let the processor choose the instructions, and keep freed memory.

    The last bits of results depend on the number of threads, so the job fixes it instead of the machine. They
    also depend on the instructions in use, which no variable of the environment is to choose.
    glibc gives large blocks back to the system at every free, and a network's step frees hundreds of them,
    which takes a fifth of the time of a convolution.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    for name in INSTRUCTIONS:
        os.environ.pop(name, None)
    with suppress(AttributeError):
        _LIBC.mallopt(_M_MMAP_THRESHOLD, _KEPT)
        _LIBC.mallopt(_M_TRIM_THRESHOLD, _KEPT)


def born(process: int) -> int:
    """Return when `process` was started, in ticks since the machine's start; 0 for one that has ended."""
    try:
        # State, parent and so on stand behind the command's name, which may hold any characters.
        words = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if words[0] in b"ZX" else int(words[19])


def alive(process: int) -> bool:
    return born(process) > 0


def owner_of_the_run() -> int | None:
    owner = os.environ.get(OWNER, "")
    return int(owner) if owner.isdigit() and not any(name in os.environ for name in _CONTAINERS) else None


def place_of_the_run(owner: int) -> Path:
    # Containers and machines that share this place may have processes of one number.
    where = []
    with suppress(OSError):
        where = [os.readlink("/proc/self/ns/pid"), Path("/proc/sys/kernel/random/boot_id").read_text("utf-8")]
    run = hashlib.sha256(f"{where} {born(owner)}".encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"leakbench-{os.getuid()}-{owner}-{run}"


def folder_of_the_run(owner: int) -> Path:
    """Return the folder of the run that process `owner` owns, and make it if need be."""
    folder = place_of_the_run(owner)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.stat(follow_symlinks=False)
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(folder)
    return folder


def end_with(owner: int, patience: float = 5.0) -> None:
    """Terminate this process soon after `owner` is gone, and kill it `patience` seconds later."""

    begun = born(owner)

    def watch() -> None:
        while begun and born(owner) == begun:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patience)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, where the kernel can."""
    with suppress(AttributeError):
        _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def ended(run: Callable[[], int], answer: Callable[[int], object] = bool) -> NoReturn:
    """End this process, a fork, with the exit code of `run`."""
    code = 1
    try:
        code = run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            code = end.code or 0
        else:
            print(end.code, file=sys.stderr)
    finally:
        kind, problem, where = sys.exc_info()
        if kind is not None and problem is not None:
            sys.excepthook(kind, problem, where)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        answer(code)
        os._exit(code)


def commit(root: Path = Path()) -> str:
    """Return the short name of the commit that is checked out at `root`; an empty text if there is none."""
    import subprocess

    call = ["git", "-C", str(root), "rev-parse", "--short=10", "HEAD"]
    try:
        return subprocess.run(call, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
