"""Of a long campaign some cases run each day and all others each night (`make nightly`)."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], short: Collection[Any]) -> list[Any]:
    """Return the cases for pytest's `parametrize`: those of `short` as they are, the others marked."""
    return [case if case in short else pytest.param(case, marks=pytest.mark.nightly) for case in cases]


def first_of_each(cases: Iterable[str], kind: Callable[[str], Any]) -> list[str]:
    """Return the first case of each kind."""
    found: dict[Any, str] = {}
    for case in cases:
        found.setdefault(kind(case), case)
    return list(found.values())
