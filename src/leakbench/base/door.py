"""The public names of a room, none of whose modules is imported before one of its names is used."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def door(room: str, public: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package. `public` is each function or class → its module."""

    def get(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(public[name]), name)

    return get, lambda: [*vars(sys.modules[room]), *public]
