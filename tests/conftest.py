"""What all tests share: one thread each and memory that is kept, as the jobs of the workflow have."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from leakbench.base.processes.process import prepare

prepare(1)

# The tests make and remove 100,000 small files. Some disks take minutes to remove them, memory takes seconds.
MEMORY = Path("/dev/shm")
GIB = 2**30
if (
    MEMORY.is_dir()
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    and shutil.disk_usage(MEMORY).free > 6 * GIB
    and psutil.virtual_memory().available > 12 * GIB
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Undo what a verb that runs in the test's own process does to signals."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first: a worker that began one of them last would work alone.

    The cluster's waits most of its time, so that it comes before all others.
    """
    first = ("slurm", "test_lint.py", "workflow", "golden", "flower", "audit", "matching", "attacks")
    rank = {part: place for place, part in enumerate(first)}
    items.sort(key=lambda item: min(rank.get(part, len(first)) for part in item.path.parts))


def pytest_collection_finish() -> None:
    """Let Python's collector pass over tests and libraries, which live as long as the session.

    That spares a twentieth of the processor's time.
    """
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let what was passed over be freed, or nanobind calls it a leak."""
    gc.unfreeze()
