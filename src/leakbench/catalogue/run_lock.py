"""A run's own lock, which its death opens: what a killed Snakemake locked is open again for the next one."""

import fcntl
from contextlib import suppress
from pathlib import Path
from typing import IO

_held: list[IO[str]] = []


def share(folder: Path = Path(".snakemake")) -> None:
    """Hold `folder` for as long as this process lives; if nobody else does, remove what is left of
    Snakemake's locks.

    Snakemake's locks are files, which outlive a killed or unplugged run and then refuse the next one. The
    kernel lets go of this lock by itself. Where files cannot be locked nothing is removed.
    """
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
        file = (folder / "alive").open("w")
        _held.append(file)
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in (folder / "locks").glob("*.lock"):
                left.unlink()
        fcntl.flock(file, fcntl.LOCK_SH)
