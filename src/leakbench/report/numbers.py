"""How the page writes numbers."""

import math
from typing import Any


def number(value: Any, digits: int = 4) -> str:
    """A number with `digits` significant places; text stays text; nothing (None, NaN, "") is an empty string.

    A table read without type guessing holds numbers as text, so text that reads as a number is written as
    one.
    """
    if value is None or value == "":
        return ""
    try:
        x = float(value)
    except (TypeError, ValueError):
        return str(value)
    if math.isnan(x):
        return ""
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    text = f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.{digits}g}"
    return text.replace("-", "−")


def count(value: Any) -> str:
    """A whole number with thousands apart."""
    return number(value, 6).removesuffix(".0")


def interval(low: Any, high: Any, digits: int = 4) -> str:
    """An interval in brackets, to `digits` significant places; empty when a bound is missing."""
    ends = number(low, digits), number(high, digits)
    return f"[{ends[0]}, {ends[1]}]" if all(ends) else ""


def percent(value: Any) -> str:
    """A rate between 0 and 1 as percent."""
    text = number(value)
    return f"{number(100 * float(value), 3)} %" if text else ""
