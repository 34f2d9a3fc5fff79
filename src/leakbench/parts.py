"""Parts are found by their name: one file in one room, holding a function of its own name."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

_ROOMS = {
    "victim": "victims",
    "generator": "generators",
    "defence": "defences",
    "attack": "attacks",
    "adaptation": "adaptive",
    "aggregation": "aggregation",
    "encryption": "encryption",
}


def stem(name: str) -> str:
    """Return the file name, without suffix, of the part that YAML calls `name`."""
    return name.replace("-", "_")


def dotted(room: str, name: str) -> str:
    """Return the module of a part, such as leakbench.attacks.gradient_matching."""
    return f"leakbench.{room}.{stem(name)}"


def parts_of(spec: Mapping[str, Any]) -> list[str]:
    """Return the modules of the parts that a spec is made of, among them the rule by which its attack infers
    labels."""
    found = [dotted(room, spec[key]["module"]) for key, room in _ROOMS.items() if key in spec]
    rule = spec.get("attack", {}).get("parameters", {}).get("inference")
    return [*found, dotted("labels", rule)] if rule else found


def part(room: str, name: str) -> Callable[..., Any]:
    """Return the function that a part's file is named after. Raises ImportError or AttributeError if there is
    none."""
    found: Callable[..., Any] = getattr(import_module(dotted(room, name)), stem(name))
    return found
