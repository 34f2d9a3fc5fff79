"""leakbench: how much of a client's private data can a server read back out of its updates?"""

from importlib import import_module
from typing import Any

import leakbench.base.moved  # noqa: F401

__version__ = "0.2.0"

# Public function or class → its module (docs/api.md). No module is imported before one of its names is used.
PUBLIC = {
    "audit": "leakbench.audit.audit",
    "record": "leakbench.observations.flower",
    "attack": "leakbench.jobs.python",
    "measure": "leakbench.jobs.python",
    "known": "leakbench.jobs.python",
    "Observation": "leakbench.observations.observation",
    "Reconstruction": "leakbench.observations.reconstruction",
    "UserError": "leakbench.base.errors",
    "Unfit": "leakbench.base.errors",
}


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'leakbench' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *PUBLIC]
