"""Time two ways of the same work in turn, so that a drifting machine is fair to both."""

import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

COLUMNS = ["name", "work", "unit", "ours", "baseline", "baseline_name", "ratio", "peak_memory_mb"]


def seconds(run: Callable[[], Any]) -> float:
    """Return the wall seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(
    name: str, work: str, unit: str, ours: tuple[Callable[[], Any], int],
    baseline: tuple[Callable[[], Any], int], baseline_name: str, repeats: int = 5,
) -> dict[str, Any]:  # fmt: skip
    """Return one row of bench.csv: seconds per unit of both ways (medians of `repeats` turns) and their
    ratio.

    `ours` and `baseline` are (function, units of work that one call does); each is called once unmeasured
    first.
    """
    ours[0](), baseline[0]()
    turns = [(seconds(ours[0]) / ours[1], seconds(baseline[0]) / baseline[1]) for _ in range(repeats)]
    mine, other = (statistics.median(column) for column in zip(*turns, strict=True))
    return dict(
        zip(
            COLUMNS,
            [
                name, work, unit, f"{mine:.3e}", f"{other:.3e}", baseline_name,
                f"{statistics.median(b / a for a, b in turns):.1f}",
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            ],
            strict=True,
        )
    )  # fmt: skip
