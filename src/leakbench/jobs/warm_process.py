"""The warm process: it has the libraries loaded and forks a child for every job of `processes.warm`."""

import gc
import json
import os
import pkgutil
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from leakbench.base.parts import place
from leakbench.base.processes.blinding import refuse_attacks
from leakbench.base.processes.process import born, end_with_parent, ended, prepare
from leakbench.base.processes.warm import LENGTH, PASSED_ON, loaded, receive
from leakbench.catalogue.signature import SIGNATURES
from leakbench.jobs.cli import APART
from leakbench.jobs.cli import run as run_verb

# torch loads _dynamo at the first step of an optimiser or a vmap, which takes longer than torch itself.
LIBRARIES = (
    "torch", "torch.func", "torch._dynamo", "torchvision", "pandas", "pyarrow.parquet", "pyarrow.dataset",
    "scipy.optimize", "scipy.stats", "skimage.metrics", "lpips", "pydantic", "papermill", "black",
    "IPython.core.formatters", "matplotlib.pyplot", "seaborn", "jinja2",
    # An attack's process must not have loaded the rooms that it may not import (`processes.blinding`).
    "leakbench.jobs.attack", "leakbench.catalogue.spec",
)  # fmt: skip
# The number of jobs of a run from which on a second process pays; it takes a second to load.
MANY = 10
# The seconds between two looks at the owner while libraries load.
_LOOKS = 0.5


def serve_one(stream: socket.socket, run: Callable[[Sequence[str]], int]) -> NoReturn:
    """Fork the job that the caller sends, answer with its exit code, and end the job if the caller is gone.

    A verb that works apart forks by itself. This process then is the job, which saves a fork.
    """
    head, files, _, _ = socket.recv_fds(stream, LENGTH.size, 3)
    order = json.loads(receive(stream, LENGTH.unpack(head)[0]))

    def answer(code: int) -> None:
        # The caller ends now, and its end must not end this process by a signal.
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_IGN)
        with suppress(OSError):
            stream.sendall(LENGTH.pack(code if code >= 0 else 128 - code))

    apart = order["argv"][:1] == [APART]
    worker = os.getpid() if apart else os.fork()
    if worker == 0:
        stream.close()
        _work(order, files, run)
    if apart:
        # The job has no parent here that could tell the caller of a signal that the verb does not (yet)
        # handle.
        for number in PASSED_ON:
            signal.signal(number, lambda received, _: ended(lambda: 128 + received, answer))
        os.register_at_fork(after_in_child=stream.close)
    stream.sendall(LENGTH.pack(worker))

    def end_with_the_caller() -> None:
        with suppress(OSError):
            while stream.recv(1):
                pass
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGTERM)

    threading.Thread(target=end_with_the_caller, daemon=True).start()
    if apart:
        _work(order, files, run, answer)
    for file in files:
        os.close(file)
    answer(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
    os._exit(0)


def _work(
    order: Mapping[str, Any], files: Sequence[int], run: Callable[[Sequence[str]], int],
    answer: Callable[[int], object] = bool,
) -> NoReturn:  # fmt: skip
    """Take on the caller's folder, environment and streams, run the job, and end with its exit code."""
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ended(lambda: run(order["argv"]), answer)


def of_leakbench() -> list[str]:
    """Return the modules of leakbench that users do not extend, and that run no program when they are loaded.

    A file that a user adds to a room runs in the jobs that need it alone, an attack's only behind the seal.
    """
    here = Path(__file__).parents[1]
    found = (module.name for module in pkgutil.walk_packages([str(here)], f"{here.name}."))
    rooms = {f"{here.name}.{place(room).replace('/', '.')}" for room in SIGNATURES}
    left_out = ("leakbench.__main__", "leakbench.jobs.warm_process")
    ours = (name for name in found if name.rpartition(".")[0] not in rooms and name not in left_out)
    return [name for name in ours if not name.startswith(f"{here.name}.attacks.")]


def _guard(owner: int, address: Path) -> int:
    """Fork a process that kills this one soon after `owner` is gone, and return its number."""
    # On a busy machine libraries load in C for many seconds, during which no thread and no handler of this
    # process runs.
    begun, loads = born(owner), os.getpid()
    guard = os.fork()
    if guard:
        return guard
    end_with_parent()
    while begun and born(owner) == begun and os.getppid() == loads:
        time.sleep(_LOOKS)
    shutil.rmtree(address.parent, ignore_errors=True)
    if os.getppid() == loads:
        os.kill(loads, signal.SIGKILL)
    os._exit(0)


def serve(
    owner: int, address: Path, run: Callable[[Sequence[str]], int], libraries: Sequence[str],
    more: Sequence[str] = (),
) -> None:  # fmt: skip
    """Load libraries, then fork a process for every job that asks, until the run's owner is gone."""
    # In a run of many jobs a second process loads `more` modules in addition. It listens beside `address`
    # (`leakbench.base.processes.warm.loaded`) and ends with this one.
    begun, guard = born(owner), _guard(owner, address)
    for library in libraries:
        with suppress(ImportError):
            __import__(library)
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # If nothing is frozen, a job that collects garbage copies every page on which objects of libraries lie.
    gc.freeze()
    jobs = 0
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(address))
        door.listen(64)
        door.settimeout(1.0)
        while begun and born(owner) == begun:
            with suppress(TimeoutError):
                stream, _ = door.accept()
                jobs += 1
                if more and jobs == MANY and os.fork() == 0:
                    end_with_parent()
                    stream.close()
                    door.close()
                    beside = loaded(address)
                    beside.unlink(missing_ok=True)
                    serve(owner, beside, run, more)
                    os._exit(0)
                if os.fork() == 0:
                    door.close()
                    stream.settimeout(None)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    try:
                        serve_one(stream, run)
                    finally:
                        os._exit(1)
                stream.close()
    shutil.rmtree(address.parent, ignore_errors=True)


if __name__ == "__main__":
    prepare(1)
    refuse_attacks()
    serve(int(sys.argv[1]), Path(sys.argv[2]), run_verb, LIBRARIES, of_leakbench())
