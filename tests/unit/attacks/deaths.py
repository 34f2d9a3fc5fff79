"""Runs that die, and go on from what they have saved."""

from collections.abc import Iterator, Sequence

import pytest


class Killed(BaseException):
    pass


class Death:
    """When a run dies: before iteration `at` of loop number `of`, from 1; `begun`: labels of loops."""

    def __init__(self) -> None:
        self.of, self.at = 0, 0
        self.begun: list[str] = []

    def meets(self, of: int, at: int) -> "pytest.RaisesExc[Killed]":
        """Return a context within which the run dies, and behind which none does."""
        self.of, self.at = of, at
        self.begun.clear()
        return pytest.raises(Killed)

    def track(self, items: Sequence[int], label: str) -> Iterator[tuple[int, bool]]:
        self.begun.append(label)
        for item in items:
            if (len(self.begun), item) == (self.of, self.at):
                self.of = 0
                raise Killed
            yield item, True
