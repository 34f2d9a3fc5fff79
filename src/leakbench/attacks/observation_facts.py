"""The facts of an observation that somebody else may have written: each is what docs/observation.md says, or
refused."""

import math
import re
from collections.abc import Callable
from typing import Any

from leakbench.artefacts import Facts
from leakbench.errors import UserError

Check = Callable[[Any], bool]
# No network and no set of samples of this project comes near; what asks for more asks for the machine's
# memory.
MOST = 100_000
LOCAL = {"lr": 1.0, "batch_size": None, "epochs": 1}


def _whole(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value <= MOST


def _number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _parameter(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) <= 100 and all(_parameter(part) and not isinstance(part, list) for part in value)
    return value is None or isinstance(value, bool | str) or (_number(value) and abs(value) <= MOST)


# Fact → (what it must be, whether it is). A dotted one lies within another.
_FACTS: dict[str, tuple[str, Check]] = {
    "network": ("a mapping", lambda v: isinstance(v, dict)),
    "network.module": (
        "the name of a victim",
        lambda v: isinstance(v, str) and bool(re.fullmatch("[a-z0-9][a-z0-9_-]*", v)),
    ),
    "network.parameters": (
        f"a mapping of texts and of numbers up to {MOST}",
        lambda v: isinstance(v, dict) and all(map(_parameter, v.values())),
    ),
    "network.shape": (
        "rows, columns, channels",
        lambda v: isinstance(v, list) and len(v) == 3 and all(map(_whole, v)),
    ),
    "network.classes": (f"a whole number up to {MOST}", _whole),
    "clients": (
        f"a list of whole numbers up to {MOST}",
        lambda v: isinstance(v, list) and 0 < len(v) <= MOST and all(map(_whole, v)),
    ),
    "kind": ("model or gradient", lambda v: v in ("model", "gradient")),
    "mode": ("train or eval", lambda v: v in ("train", "eval")),
    "local": ("a mapping", lambda v: isinstance(v, dict)),
    "local.lr": ("a number above 0", lambda v: _number(v) and v > 0),
    "local.batch_size": ("a whole number or null", lambda v: v is None or _whole(v)),
    "local.epochs": (f"a whole number up to {MOST}", _whole),
    "knows": (
        "a mapping of texts",
        lambda v: isinstance(v, dict) and all(isinstance(text, str) for text in v.values()),
    ),
    "lock": ("a mapping", lambda v: isinstance(v, dict)),
}
_LOCK: dict[str, tuple[str, Check]] = {
    "lock.layers": ("a list of layers", lambda v: _names(v) and bool(v) and len(set(v)) == len(v)),
    "lock.key_length": (f"a whole number up to {MOST}", _whole),
    "lock.activation": ("none, relu or sigmoid", lambda v: v in ("none", "relu", "sigmoid")),
    "lock.shares": (
        "a list of key, lock-weights, lock-gradients",
        lambda v: _names(v) and set(v) <= {"key", "lock-weights", "lock-gradients"},
    ),
}


def _see(what: str) -> str:
    return "; see docs/observation.md)" if "(" in what else " (see docs/observation.md)"


def told(facts: Facts, where: str) -> Facts:
    """Return the facts of an observation, those that may be left out filled in. Raises UserError naming file
    and fact."""
    filled = {"local": LOCAL, "mode": "eval", "knows": {}, "lock": {}} | facts
    for name, (wanted, fits) in (_FACTS | (_LOCK if filled["lock"] else {})).items():
        value: Any = filled
        for key in name.split("."):
            if key not in value:
                what = "network is not a victim (" if name.startswith("network.") else "not an observation, "
                raise UserError(f"{where}: {what}'{key}' is missing{_see(what)}")
            value = value[key]
        try:
            fit = fits(value)
        except (TypeError, ValueError, OverflowError):
            fit = False
        if not fit:
            what = f"network is not a victim ({name}" if name.startswith("network.") else name
            raise UserError(f"{where}: {what} is not {wanted}{_see(what)}")
    return filled
