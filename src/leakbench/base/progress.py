"""Progress of long jobs: one live line on a terminal, plain log lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def track(items: Sequence[T], label: str, every: float = 10.0) -> Iterator[tuple[T, bool]]:
    """Yield (item, due) for each of `items`, under a name. `due` is true about once every `every` seconds."""
    console = Console(stderr=True)
    last = time.monotonic()
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(label, total=len(items))
            for item in items:
                due = time.monotonic() - last >= every
                yield item, due
                last = time.monotonic() if due else last
                progress.advance(task)
        return
    began = last
    for done, item in enumerate(items):
        due = time.monotonic() - last >= every
        if due:
            left = (len(items) - done) * (time.monotonic() - began) / max(done, 1)
            log(f"{label}: {done} of {len(items)}, about {left:,.0f} s left")
        yield item, due
        last = time.monotonic() if due else last
