"""Warm start, the side of the jobs: the first job of a run leaves a process behind that has the libraries
loaded, and later jobs fork from it.

Importing torch takes longer than most cells compute. `LEAKBENCH_WARM` holds the process that owns the run
(the Snakefile sets it to Snakemake's own). Without it, or if any step here fails, a job runs in its own
process. A forked job is a fresh child with the caller's arguments, folder, environment and streams, so its
result is the same. The process from which jobs fork is `leakbench.jobs.warm_process`.
"""

import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.base.processes.process import OWNER, alive, folder_of_the_run, owner_of_the_run

# A number on the socket: the length of the message behind it, a process or an exit code.
LENGTH = struct.Struct("!I")
# The signals that a caller passes on to its job.
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def lead(main: bool) -> None:
    """Let the jobs that this process starts run by its own interpreter, and fork from a warm process."""
    programs = str(Path(sys.executable).parent)
    if os.pathsep in programs:
        raise UserError(f"{programs}: a path with '{os.pathsep}' holds no program (move the environment)")
    # Surrogates stand for bytes of a path that the locale has no letters for.
    here = os.getcwd()
    if any("\ud800" <= each <= "\udfff" for each in here):
        raise UserError(f"{ascii(here)[1:-1]}: this locale cannot write the path (set LC_ALL=C.UTF-8)")
    os.environ["PATH"] = os.pathsep.join([programs, os.environ["PATH"]])
    os.environ[OWNER] = str(os.getpid()) if main else ""


def socket_of(owner: int) -> Path:
    return folder_of_the_run(owner) / "socket"


def receive(stream: socket.socket, size: int) -> bytes:
    """Return the next `size` bytes of `stream`. Raises ConnectionError if the other side is gone before."""
    parts = bytearray()
    while len(parts) < size:
        part = stream.recv(size - len(parts))
        if not part:
            raise ConnectionError("the other side is gone")
        parts += part
    return bytes(parts)


def loaded(address: Path) -> Path:
    """Return the socket of the process that has all of leakbench loaded."""
    return address.with_name("loaded")


def run_warm(argv: Sequence[str], blind: bool = True) -> int | None:
    """Run a job in a fork of the warm process."""
    owner = owner_of_the_run()
    if owner is None:
        return None
    with suppress(OSError):
        address = socket_of(owner)
        if not blind:
            with suppress(FileNotFoundError, ConnectionError), socket.socket(socket.AF_UNIX) as stream:
                stream.connect(str(loaded(address)))
                return follow(stream, argv)
        with suppress(ConnectionError), socket.socket(socket.AF_UNIX) as stream:
            if _reached(stream, owner, address):
                return follow(stream, argv)
            return None
        # The process behind the socket is gone: the warm process, or a child of one that was killed before.
        with socket.socket(socket.AF_UNIX) as stream:
            _reached(stream, owner, address)
    return None


def _reached(stream: socket.socket, owner: int, address: Path) -> bool:
    """Connect to the warm process and return True; if there is none, leave one behind and return False."""
    try:
        stream.connect(str(address))
    except ConnectionRefusedError:
        # The socket outlived its process, which was killed. It is removed, since the next process binds its
        # own.
        clear(address)
    except FileNotFoundError:
        pass
    else:
        return True
    _leave_behind(owner, address)
    return False


def _leave_behind(owner: int, address: Path) -> None:
    """Start the warm process, unless another job has just done so."""
    import subprocess

    marker = address.parent / "starting"
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        loads = marker.read_text("utf-8")
        if not loads.isdigit() or alive(int(loads)):
            return
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "leakbench.jobs.warm_process", str(owner), str(address)]
    loader = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    marker.write_text(str(loader.pid))


def clear(address: Path) -> None:
    """Remove the socket of a warm process, and the marker that names the process."""
    for path in (address, address.parent / "starting"):
        path.unlink(missing_ok=True)


def follow(stream: socket.socket, argv: Sequence[str]) -> int:
    """Hand the job `argv` over on `stream`, pass signals on to it and return its exit code."""
    # The code is 128 + signal if a signal ended the job. Raises ConnectionError, after the job is ended, if
    # the process that kept it is gone.
    order = json.dumps({"argv": list(argv), "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    socket.send_fds(stream, [LENGTH.pack(len(order))], [0, 1, 2])
    stream.sendall(order)
    (worker,) = LENGTH.unpack(receive(stream, LENGTH.size))
    before = {
        number: signal.signal(number, lambda received, _: os.kill(worker, received)) for number in PASSED_ON
    }
    try:
        (code,) = LENGTH.unpack(receive(stream, LENGTH.size))
    except ConnectionError:
        # The process that kept the job was killed. The caller runs the job once more, so the first must be
        # gone, because both write one file.
        for number, handler in before.items():
            signal.signal(number, handler)
        _end(worker)
        raise
    return int(code)


def _end(worker: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    for _ in range(50):
        if not alive(worker):
            return
        time.sleep(0.02)
