"""What networks are trained for, one file each: the loss of their outputs, and which of them are right."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from leakbench.tasks import classification, recognition

TASKS: dict[str, ModuleType] = {"classification": classification, "recognition": recognition}


def task_of(training: Mapping[str, Any]) -> ModuleType:
    """Return the task of a training regime, with `loss(outputs, labels)` and `correct(outputs, labels)`."""
    return TASKS[training.get("task", "classification")]
