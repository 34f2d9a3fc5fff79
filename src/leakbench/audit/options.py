"""What a user writes for an audit: durations, sizes, FILE.py:NAME, and conditions that fail a build."""

import operator
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
_GIGABYTES = {"m": 1 / 1024, "g": 1.0}
# The largest number of seconds that a timer of the system takes.
_MOST = 1e9


def seconds_of(text: str | float) -> float:
    """Return the seconds of a duration such as 90, "90s", "2m" or "1h". Raises UserError otherwise."""
    return _amount(str(text), _SECONDS, "budget", "a duration (write 90s, 2m or 1h)")


def gigabytes(text: str) -> float:
    """Return the gigabytes of a size such as "4g" or "800m". Raises UserError for any other text."""
    return _amount(text, _GIGABYTES, "memory", "a size (write 4g or 800m)")


def is_rate(value: Any) -> bool:
    """Return whether a value is a learning rate: a real number above 0, and finite."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < float(value) < inf


def _amount(text: str, units: dict[str, float], flag: str, what: str) -> float:
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


_FORM = re.compile(
    r"\s*(exposed|recognisable|labelled)\s*(>=|>|<=|<|==)\s*([0-9]{1,18})\s*(?:at\s+([A-D])(?:\.\.([A-D]))?)?\s*"
)
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
_LEVEL = {"recognisable": 1, "exposed": 2, "labelled": 3}


def check(condition: str) -> None:
    """Raise UserError for a condition that cannot be read."""
    if not _FORM.fullmatch(condition):
        raise UserError(
            f"--fail-if: {condition!r} is no condition (write 'exposed > 0 at A..D', with exposed, "
            "recognisable or labelled, a number, and letters from A to D: E to H are not tried)"
        )


def met(condition: str, audit: dict[str, Any]) -> bool:
    """Return whether a condition such as "exposed > 0 at A..D" holds for `Audit.to_dict()`."""
    # The last letter decides: an attacker also has what the attackers before it have, and runs their attacks.
    check(condition)
    match = _FORM.fullmatch(condition)
    assert match is not None
    what, relation, number, first, last = match.groups()
    letters = "ABCD"
    wanted = letters[: letters.index(last or first or "D") + 1]
    own = [found["levels"] for found in audit["found"] if found["attacker"] in wanted]
    best = [max(levels) for levels in zip(*own, strict=True)]
    return bool(_COMPARE[relation](sum(level >= _LEVEL[what] for level in best), int(number)))
