"""Work side by side: forks of this process on one thread each, for tasks that leave their results in files.

Two small convolutions on one core each are faster than one after the other on two cores. A task's arithmetic
stays the same however many tasks run beside it.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import torch

from leakbench.base.processes.process import end_with_parent
from leakbench.base.progress import log

_ENDING = (signal.SIGTERM, signal.SIGINT)
Task = Callable[[], object]


@dataclass(frozen=True)
class Crew:
    """How an attack works.

    label: the name that its progress shows.
    scratch: the folder from which a killed attack resumes, or None.
    workers: the number of its processes. It is 1 on a device other than the processor, because forks do not
    share such a device.
    device: torch's name of the device on which it computes.
    """

    label: str = "match"
    scratch: Path | None = None
    workers: int = 1
    device: str = "cpu"

    def part(self, label: str) -> "Crew":
        folder = self.scratch and self.scratch / re.sub("[^a-z0-9]+", "-", label)
        return replace(self, label=label, scratch=folder)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread within the block, whatever is set outside."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(tasks: Sequence[Task], workers: int) -> None:
    """Run the tasks in `workers` forks, and wait for them; with one worker do nothing.

    A task that fails or is killed leaves no result. The caller does every task without a result itself, and
    so meets the error. The forks end with this process.
    """
    count = min(workers, len(tasks))
    children: list[int] = []
    try:
        for number in range(count if count > 1 else 0):
            with _held():
                child = os.fork()
                if child == 0:
                    _work(tasks[number::count], quiet=number > 0)
                children.append(child)
        while children:
            _, status = os.waitpid(children[0], 0)
            children.pop(0)
            if status:
                log("a worker ended early: this process does what it has left")
    finally:
        for child in children:
            # A sealed process may send no signal. Its workers end with it.
            with suppress(PermissionError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


@contextmanager
def _held() -> Iterator[None]:
    """Let signals that end this process wait, because Python drops what a handler raises within a fork."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)


def _work(tasks: Sequence[Task], quiet: bool) -> NoReturn:
    code = 1
    try:
        end_with_parent()
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        if quiet:
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        with one_thread():
            for task in tasks:
                task()
        code = 0
    finally:
        os._exit(code)
