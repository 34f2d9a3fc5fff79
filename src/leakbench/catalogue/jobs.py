"""How Snakemake starts the jobs of this workflow."""

import os
import sys
from pathlib import Path
from typing import Any

from leakbench.warm import OWNER


def prefix(workflow: Any) -> str:
    """Return what precedes each job's command: Snakemake's own interpreter first on the path, and a warm process.

    Only the process that owns the whole run has jobs to come for which a warm one pays (`leakbench.warm`).
    """
    owner = f"{OWNER}={os.getpid()}" if workflow.is_main_process else ""
    return f'export PATH="{Path(sys.executable).parent}:$PATH" {owner}; '


def calm(workflow: Any) -> None:
    """Lift the limit of jobs per second, whose bookkeeping takes most of a core by the end of a run.

    Snakemake 9 starts a timer after each scheduling pass and another pass after each timer, so that its passes multiply
    with the jobs done; without a limit it starts none.
    """
    if getattr(workflow.scheduler, "job_rate_limiter", None) is not None:
        workflow.scheduler.job_rate_limiter = None
