"""Durations and sizes as people write them."""

import re

from leakbench.errors import UserError

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_GIGABYTES = {"m": 1 / 1024, "g": 1.0}


def seconds_of(text: str | float) -> float:
    """Return the seconds of a duration such as 90, "90s", "2m" or "1h". Raises UserError for another."""
    return _amount(str(text), _SECONDS, "budget", "a duration (write 90s, 2m or 1h)")


def gigabytes(text: str) -> float:
    """Return the gigabytes of a size such as "4g" or "800m". Raises UserError for another."""
    return _amount(text, _GIGABYTES, "memory", "a size (write 4g or 800m)")


def _amount(text: str, units: dict[str, float], flag: str, what: str) -> float:
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]?)\s*", text.lower())
    if not match or match[2] not in units or not float(match[1]):
        raise UserError(f"{flag}: {text!r} is not {what}")
    return float(match[1]) * units[match[2]]
