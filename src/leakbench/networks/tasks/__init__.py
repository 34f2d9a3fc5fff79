"""The tasks for which networks are trained, one file each: the loss of outputs and which ones are right."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from leakbench.networks.tasks import classification, recognition

TASKS: dict[str, ModuleType] = {"classification": classification, "recognition": recognition}


def task_of(training: Mapping[str, Any]) -> ModuleType:
    """Return the task of a training regime: a module with `loss` and `correct`."""
    return TASKS[training.get("task", "classification")]
