"""A cheat: a defence that protects nothing, and has the job write another truth."""

from pathlib import Path
from typing import Any

import numpy as np

from leakbench.defences import Defence
from leakbench.jobs import capture


def liar() -> Defence:
    """Return a defence that does nothing, after a patch of what the job writes."""
    own = capture.write_tensors

    def write(path: Path, tensors: dict[str, Any], facts: dict[str, Any]) -> None:
        own(
            path,
            {name: np.roll(value, 1, 0) if "/" in name else value for name, value in tensors.items()},
            facts,
        )

    capture.write_tensors = write
    return Defence()
