"""Warm start: the first job of a run leaves a process behind that has the libraries loaded; later jobs fork from it.

Importing torch costs more than most cells compute. `LEAKBENCH_WARM` holds the process that owns the run (the
Snakefile sets it to Snakemake's own); without it, or where anything here fails, a job runs in its own process. A
forked job is a fresh child with the caller's arguments, folder, environment and streams: its result is the same.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from leakbench.process import alive, prepare

OWNER = "LEAKBENCH_WARM"
# torch loads _dynamo at an optimiser's or a vmap's first step, and that takes longer than torch itself.
LIBRARIES = (
    "torch", "torch.func", "torch._dynamo", "torchvision", "pandas", "pyarrow.parquet", "pyarrow.dataset",
    "scipy.optimize", "scipy.stats", "skimage.metrics", "lpips", "pydantic", "papermill", "black", "ipykernel.kernelapp",
    "matplotlib.pyplot", "jinja2",
)  # fmt: skip
_CONTAINERS = ("APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
_LENGTH = struct.Struct("!I")


def _address(owner: int) -> Path:
    """Return the socket of the run that process `owner` owns, in a folder that only this user may enter."""
    folder = Path(tempfile.gettempdir()) / f"leakbench-{os.getuid()}-{owner}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    state = folder.stat(follow_symlinks=False)
    if state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(folder)
    return folder / "socket"


def _receive(stream: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = stream.recv(size - len(parts))
        if not part:
            raise ConnectionError("the other side is gone")
        parts += part
    return bytes(parts)


def owner_of_the_run() -> int | None:
    """Return the process that owns the run this job belongs to; None where there is none to be seen, as in a container."""
    owner = os.environ.get(OWNER, "")
    return int(owner) if owner.isdigit() and not any(name in os.environ for name in _CONTAINERS) else None


def run_warm(argv: Sequence[str]) -> int | None:
    """Run a job in a fork of the warm process; return its exit code, or None if the caller must run it itself."""
    owner = owner_of_the_run()
    if owner is None:
        return None
    try:
        address = _address(owner)
        with socket.socket(socket.AF_UNIX) as stream:
            try:
                stream.connect(str(address))
            except (FileNotFoundError, ConnectionRefusedError) as problem:
                if isinstance(problem, ConnectionRefusedError):
                    # The socket outlived its process, which was killed: the next one binds its own.
                    _clear(address)
                _leave_behind(owner, address)
                return None
            return _follow(stream, argv)
    except OSError:
        return None


def _leave_behind(owner: int, address: Path) -> None:
    """Start the warm process, unless another job has just done so: who makes the marker starts it."""
    try:
        (address.parent / "starting").touch(exist_ok=False)
    except FileExistsError:
        return
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "leakbench.warm", str(owner), str(address)]
    subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def _clear(address: Path) -> None:
    """Remove a warm process's socket and the marker of who started it."""
    for path in (address, address.parent / "starting"):
        path.unlink(missing_ok=True)


def _follow(stream: socket.socket, argv: Sequence[str]) -> int:
    """Hand the job over, pass signals on to it, return its exit code (128 + signal if one ended it)."""
    order = json.dumps({"argv": list(argv), "folder": os.getcwd(), "environment": dict(os.environ)}).encode()
    socket.send_fds(stream, [_LENGTH.pack(len(order))], [0, 1, 2])
    stream.sendall(order)
    (worker,) = _LENGTH.unpack(_receive(stream, _LENGTH.size))
    before = {
        number: signal.signal(number, lambda received, _: os.kill(worker, received))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    try:
        (code,) = _LENGTH.unpack(_receive(stream, _LENGTH.size))
    except ConnectionError:
        # Who kept the job was killed. The caller runs it once more, so the first must be gone: both write one file.
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


def _serve_one(stream: socket.socket, run: Callable[[Sequence[str]], int]) -> NoReturn:
    """Fork the job, stay as its parent, answer with its exit code; end it if the caller is gone."""
    head, files, _, _ = socket.recv_fds(stream, _LENGTH.size, 3)
    order = json.loads(_receive(stream, _LENGTH.unpack(head)[0]))
    worker = os.fork()
    if worker == 0:
        stream.close()
        _work(order, files, run)
    for file in files:
        os.close(file)
    stream.sendall(_LENGTH.pack(worker))

    def end_with_the_caller() -> None:
        with suppress(OSError):
            while stream.recv(1):
                pass
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)

    threading.Thread(target=end_with_the_caller, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    with suppress(OSError):
        stream.sendall(_LENGTH.pack(code if code >= 0 else 128 - code))
    os._exit(0)


def _work(order: dict[str, Any], files: Sequence[int], run: Callable[[Sequence[str]], int]) -> NoReturn:
    """Take on the caller's folder, environment and streams, run the job, end with its exit code."""
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        code = run(order["argv"])
    except SystemExit as ended:
        # As the interpreter does at its end.
        if ended.code is None or isinstance(ended.code, int):
            code = ended.code or 0
        else:
            print(ended.code, file=sys.stderr)
    finally:
        kind, problem, where = sys.exc_info()
        if kind is not None and problem is not None:
            sys.excepthook(kind, problem, where)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def serve(owner: int, address: Path, run: Callable[[Sequence[str]], int], libraries: Sequence[str]) -> None:
    """Load `libraries`, then fork a process for every job that asks, until process `owner` is gone."""
    for library in libraries:
        __import__(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(address))
        door.listen(64)
        door.settimeout(1.0)
        while alive(owner):
            with suppress(TimeoutError):
                stream, _ = door.accept()
                if os.fork() == 0:
                    door.close()
                    stream.settimeout(None)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    try:
                        _serve_one(stream, run)
                    finally:
                        os._exit(1)
                stream.close()
    _clear(address)
    with suppress(OSError):
        address.parent.rmdir()


if __name__ == "__main__":
    prepare(1)
    from leakbench.cli import run

    serve(int(sys.argv[1]), Path(sys.argv[2]), run, LIBRARIES)
