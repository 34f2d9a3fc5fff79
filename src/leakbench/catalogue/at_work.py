"""The lock of a run's specs: processes that run in one folder at once must follow the same specs."""

import fcntl
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from leakbench.base.digest import write_changed
from leakbench.base.errors import UserError

LOCK = ".lock"


def write(root: Path, folder: str, texts: Mapping[str, str]) -> IO[str] | None:
    """Write the specs of a plan that differ from the files, and lock them against other plans.

    root: the folder that all paths are below.
    folder: the folder of the run's specs, which holds the lock.
    texts: the file of each spec → its text.

    Returns the lock, which lasts until it is closed or the process ends, or None if the folder may not be
    written or its file system has no locks. Raises UserError if a running process holds the lock with other
    specs.
    """
    # Specs outside the folder are those of data sets, which all runs share.
    own = "".join(f"{path}\n{text}" for path, text in sorted(texts.items()) if path.startswith(folder))
    plan = hashlib.sha256(own.encode()).hexdigest()
    lock, alone = _locked(root / folder)
    if lock and not alone and lock.read() != plan:
        raise UserError(
            f"{folder}: a run with other settings goes on here (wait for its end, or use another checkout)"
        )
    for path, text in texts.items():
        write_changed(root / path, text)
    if lock and alone:
        lock.truncate(0)
        lock.write(plan)
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _locked(folder: Path) -> tuple[IO[str] | None, bool]:
    """Return a folder's lock, if it can have one, and whether no other process holds it."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a+")
        lock.seek(0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A process that is writing specs is soon done, and one that has written them shares the lock.
            fcntl.flock(lock, fcntl.LOCK_SH)
            return lock, False
        return lock, True
    return None, True
