"""How the page writes numbers."""

import math
from typing import Any


def number(value: Any, digits: int = 4) -> str:
    """Return a number as text with `digits` significant digits."""
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
    return number(value, 6).removesuffix(".0")


def interval(low: Any, high: Any, digits: int = 4, percent: bool = False) -> str:
    """Return an interval in brackets, with `digits` significant digits, or of shares in percent."""
    ends = number(low, digits), number(high, digits)
    if percent and all(ends):
        ends = f"{float(low):.1%}", f"{float(high):.1%}"
    return f"[{ends[0]}, {ends[1]}]" if all(ends) else ""


def percent(value: Any) -> str:
    text = number(value)
    return f"{number(100 * float(value), 3)} %" if text else ""
