"""The time that one core works, in words."""

import math


def in_words(seconds: float) -> str:
    """Return core-seconds in a few words, coarse enough that one reason serves many cells."""
    if seconds < 60:
        return f"{math.ceil(seconds)} core-seconds"
    if seconds < 3600:
        return f"{math.ceil(seconds / 60)} core-minutes"
    return f"{math.ceil(seconds / 3600):,} core-hours"
