"""What an attacker sees, and what it claims to have read from it."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Observation": "observation",
    "Reconstruction": "reconstruction",
    "ThreatModel": "threat_model",
    "record": "flower",
}


def __getattr__(name: str) -> Any:
    # A Flower app records its rounds without torch, so nothing is imported before it is used.
    if name not in _PUBLIC:
        raise AttributeError(f"module 'leakbench.observations' has no attribute {name!r}")
    return getattr(import_module(f"leakbench.observations.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_PUBLIC]
