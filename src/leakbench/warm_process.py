"""The warm process: it has the libraries loaded, and forks a child for every job that asks
(`leakbench.warm`)."""

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from leakbench.cli import APART
from leakbench.cli import run as run_verb
from leakbench.process import born, end_with_parent, ended, prepare
from leakbench.warm import LENGTH, PASSED_ON, loaded, receive

# torch loads _dynamo at an optimiser's or a vmap's first step, and that takes longer than torch itself.
LIBRARIES = (
    "torch", "torch.func", "torch._dynamo", "torchvision", "pandas", "pyarrow.parquet", "pyarrow.dataset",
    "scipy.optimize", "scipy.stats", "skimage.metrics", "lpips", "pydantic", "papermill", "black",
    "IPython.core.formatters", "matplotlib.pyplot", "seaborn", "jinja2",
    # An attack's process has none of the rooms loaded that it may not import (`leakbench.blinding`).
    "leakbench.verbs.attack", "leakbench.catalogue.spec",
)  # fmt: skip
# Jobs of a run from which on a second process pays, which takes a second to load.
MANY = 10
# Seconds between two looks at the owner while libraries load.
_LOOKS = 0.5


def serve_one(stream: socket.socket, run: Callable[[Sequence[str]], int]) -> NoReturn:
    """Fork the job, stay as its parent, answer with its exit code; end it if the caller is gone.

    A verb that works apart forks by itself: then this process is the job, and a fork less is made.
    """
    head, files, _, _ = socket.recv_fds(stream, LENGTH.size, 3)
    order = json.loads(receive(stream, LENGTH.unpack(head)[0]))

    def answer(code: int) -> None:
        # The caller goes now, which is no reason to end in another way.
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
        # It has no parent that tells the caller of a signal which the verb does not heed (yet).
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
    order: dict[str, Any],
    files: Sequence[int],
    run: Callable[[Sequence[str]], int],
    answer: Callable[[int], object] = bool,
) -> NoReturn:
    """Take on the caller's folder, environment and streams, run the job, end with its exit code, which
    `answer` is called with."""
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ended(lambda: run(order["argv"]), answer)


def of_leakbench() -> list[str]:
    """Return all modules of leakbench but those that run when they are loaded."""
    here = Path(__file__).parent
    found = (module.name for module in pkgutil.walk_packages([str(here)], f"{here.name}."))
    return [name for name in found if name not in ("leakbench.__main__", "leakbench.warm_process")]


def _guard(owner: int, address: Path) -> int:
    """Fork a process that kills this one soon after `owner` is gone, and return it.

    Libraries load in C for many seconds on a busy machine, where no thread and no handler runs meanwhile.
    """
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
    """Load `libraries`, then fork a process for every job that asks, until process `owner` is gone.

    more: what a second process loads besides, in a run of many jobs. It listens beside `address`
    (`leakbench.warm.loaded`) and ends with this one.
    """
    begun, guard = born(owner), _guard(owner, address)
    for library in libraries:
        with suppress(ImportError):
            __import__(library)
    with suppress(ChildProcessError, ProcessLookupError):
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # A job that collects garbage would copy every page that the libraries' objects lie on.
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
    serve(int(sys.argv[1]), Path(sys.argv[2]), run_verb, LIBRARIES, of_leakbench())
