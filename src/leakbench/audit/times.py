"""Durations and sizes as people write them."""

import re
import reprlib
from math import inf
from numbers import Real
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
