"""kernel: the process in which a figure's notebook runs; a job's fork has the drawing libraries loaded
already."""

import os
from pathlib import Path


def kernel(connection: Path) -> None:
    """Serve the notebook whose connection file Jupyter wrote, until it shuts the kernel down."""
    from ipykernel.kernelapp import IPKernelApp

    # In a fork Jupyter's process is not the parent, and the kernel would take its parent for gone.
    os.environ.pop("JPY_PARENT_PID", None)
    application = IPKernelApp.instance(connection_file=str(connection), log_level="ERROR")
    application.parent_handle = os.getppid()
    application.initialize([])
    application.start()
