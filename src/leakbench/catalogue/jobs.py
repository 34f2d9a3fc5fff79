"""How Snakemake starts the jobs of this workflow."""

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from leakbench.warm import OWNER


def prefix(workflow: Any) -> str:
    """Return what precedes each job's command: Snakemake's own interpreter first on the path, and a warm
    process.

    Only the process that owns the whole run has jobs to come for which a warm one pays (`leakbench.warm`).
    """
    owner = f"{OWNER}={os.getpid()}" if workflow.is_main_process else ""
    return f'export PATH="{Path(sys.executable).parent}:$PATH" {owner}; '


def calm(workflow: Any) -> None:
    """Spare Snakemake 9 what takes most of a core by the end of a run.

    Its limit of jobs per second starts a timer after each scheduling pass and another pass after each timer,
    so that its passes multiply with the jobs done; without a limit it starts none. And for every output of
    every job it reads all inputs again for their checksums; while a file has not changed, the first one
    stands.
    """
    from snakemake import io

    if getattr(workflow.scheduler, "job_rate_limiter", None) is not None:
        workflow.scheduler.job_rate_limiter = None
    if hasattr(io._IOFile, "checksum"):
        io._IOFile.checksum = _remembered(io._IOFile.checksum)


def _remembered(checksum: Callable[..., Awaitable[str | None]]) -> Callable[..., Awaitable[str | None]]:
    """Return `checksum` (a method of Snakemake's files) with its answers kept for files that stay as they
    were."""
    known: dict[Any, str | None] = {}

    async def remembered(file: Any, *arguments: Any, **options: Any) -> str | None:
        try:
            state = os.stat(file)
        except OSError:
            return await checksum(file, *arguments, **options)
        key = (
            os.fspath(file),
            state.st_ino,
            state.st_mtime_ns,
            state.st_size,
            arguments,
            *sorted(options.items()),
        )
        if key not in known:
            known[key] = await checksum(file, *arguments, **options)
        return known[key]

    return remembered
