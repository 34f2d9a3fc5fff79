"""Runs without a warm process, with one whose jobs are Python, and with the real one."""

from collections.abc import Iterator

import pytest
from warm_runs import Run, until


@pytest.fixture
def run() -> Iterator[Run]:
    made = Run()
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def warmed(run: Run) -> Run:
    run.serve()
    return run


@pytest.fixture(scope="module")
def served() -> Iterator[Run]:
    """Return a run with a warm process that all tests of a file share. Do not end it: see `warmed`."""
    made = Run()
    try:
        made.serve()
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def real() -> Iterator[Run]:
    """Return a run whose first job has left the real warm process behind."""
    made = Run()
    try:
        first = made.leakbench("fetch", "--spec", "no such spec.json", "--out", "x")
        assert first.returncode == 2
        until(made.ready, 120)
        yield made
    finally:
        made.end()
