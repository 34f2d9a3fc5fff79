"""leakbench: how much of a client's private data can a server read back out of its updates?"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

# Public function or class → its module (docs/api.md). No module is imported before one of its names is used.
PUBLIC = {
    "audit": "leakbench.auditing.audit",
    "record": "leakbench.flower",
    "attack": "leakbench.by_name",
    "measure": "leakbench.by_name",
    "known": "leakbench.by_name",
    "Observation": "leakbench.attacks.observation",
    "Reconstruction": "leakbench.attacks.reconstruction",
    "UserError": "leakbench.errors",
    "Unfit": "leakbench.errors",
}


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'leakbench' has no attribute {name!r}")
    return getattr(import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *PUBLIC]
