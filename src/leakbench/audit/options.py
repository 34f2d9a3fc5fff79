"""What a user writes for an audit: durations, rates and FILE.py:NAME."""

import os
import re
import reprlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any

from leakbench.base.errors import UserError

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
# The largest number of seconds that a timer of the system takes.
_MOST = 1e9


def seconds_of(text: str | float) -> float:
    """Return the seconds of a duration such as 90, "90s", "2m" or "1h". Raises UserError otherwise."""
    return amount(str(text), _SECONDS, "budget", "a duration (write 90s, 2m or 1h)")


def is_rate(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf


def amount(text: str, units: dict[str, float], flag: str, what: str) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]?)\s*", text.lower())
    amount = float(match[1]) * units.get(match[2], 0.0) if match else 0.0
    if not 0 < amount <= _MOST:
        raise UserError(f"{flag}: {reprlib.repr(text)} is not {what}")
    return amount


def split(text: str) -> tuple[Path, str]:
    """Return file and name of FILE.py:NAME. Raises UserError for anything else."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"audit: {text!r} is not FILE.py:NAME, such as my_app.py:client")
    if not os.path.isfile(file):
        raise UserError(f"audit: {file}: no such file")
    return Path(file), name


def loaded(text: str) -> Any:
    """Run a file and return the object that FILE.py:NAME names. Raises UserError if there is none."""
    path, name = split(text)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    # No compiled copy is left beside the user's file.
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise UserError(f"has no {name}")
    return getattr(module, name)
