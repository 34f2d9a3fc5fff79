"""Time several ways to do the same work in short turns, on a machine that does nothing else.

The sides take turns, and the side that begins changes, so that a machine whose speed drifts is fair to all.
Every side may use the same cores. The share of the machine that other programs take is read before and after.
A row that was measured on a busy machine is marked: it is printed and never written.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = [
    "name", "work", "unit", "ours", "ours_q1", "ours_q3", "ours_of_ceiling", "baseline", "baseline_q1",
    "baseline_q3", "baseline_of_ceiling", "baseline_name", "ratio", "ratio_q1", "ratio_q3", "turns",
    "load_before", "load_after", "busy",
]  # fmt: skip
# Fewer turns say nothing about spread.
TURNS = 5
# The machine is busy if other programs take more than this share of it.
BUSY = 0.1

Row = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """One way to do the work.

    name: the name of the side, for people.
    run: does the work of one turn. If it returns a float, these are the seconds that count; otherwise the
    whole call is timed.
    units: the units of work in one turn.
    flop: floating-point operations of a unit; 0 where the work does not consist of them.
    """

    name: str
    run: Callable[[], object]
    units: float
    flop: float = 0.0


def load(seconds: float = 1.0, stat: Path = Path("/proc/stat")) -> float:
    """Return the share (0 to 1) of all cores that other programs take, measured over `seconds`."""
    first = _ticks(stat)
    time.sleep(seconds)
    last = _ticks(stat)
    total = sum(last) - sum(first)
    # The fourth and fifth number are the time that cores spent idle, and idle while waiting for a disk.
    idle = sum(last[3:5]) - sum(first[3:5])
    return 1 - idle / total if total else 0.0


def _ticks(stat: Path) -> list[int]:
    return [int(word) for word in stat.read_text().splitlines()[0].split()[1:9]]


def alternate(
    sides: Sequence[Side], turns: int = TURNS, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Return the seconds per unit of every side, one for each turn, by the side's name.

    Each side first has a turn that is not measured. The side that begins changes with every turn.

    sides: the ways to do the work.
    turns: the number of measured turns, at least TURNS.
    clock: returns the time in seconds.

    Raises ValueError for fewer than TURNS turns.
    """
    if turns < TURNS:
        raise ValueError(f"{turns} turns: a spread needs at least {TURNS}")
    for side in sides:
        side.run()
    found: dict[str, list[float]] = {side.name: [] for side in sides}
    for turn in range(turns):
        for side in sides if turn % 2 == 0 else reversed(sides):
            found[side.name].append(_turn(side, clock))
    return found


def once(sides: Sequence[Side], clock: Callable[[], float] = time.perf_counter) -> dict[str, list[float]]:
    """Return what `alternate` does after a single turn of every side, which says that the side works.

    sides: the ways to do the work.
    clock: returns the time in seconds.
    """
    return {side.name: [_turn(side, clock)] for side in sides}


def _turn(side: Side, clock: Callable[[], float]) -> float:
    start = clock()
    counted = side.run()
    seconds = counted if isinstance(counted, float) else clock() - start
    return seconds / side.units


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and the first and third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, low, high


def compare(
    name: str, work: str | Callable[[], str], unit: str, ours: Side, rivals: Sequence[Side],
    ceiling: float = 0.0, turns: int = TURNS,
    clock: Callable[[], float] = time.perf_counter,
    watch: Callable[[], float] = load, small: bool = False,
) -> Iterator[Row]:  # fmt: skip
    """Yield a row of bench.csv for each rival: seconds per unit, and how many times as fast ours is.

    name: the name of the comparison.
    work: what is done, in words, or a function that says it after the turns.
    unit: the unit of the measured numbers.
    ours: the project's side.
    rivals: the other sides.
    ceiling: operations a second of all the cores that a side may use, of the kind of which the work consists;
    0 where there is none.
    turns: the number of measured turns, at least TURNS.
    clock: returns the time in seconds.
    watch: returns the share (0 to 1) of the machine that other programs take.
    small: whether every side has a single turn, to see that the comparison works, whatever the machine does.
    """
    if small:
        before, after, turns, found = 0.0, 0.0, 1, once([ours, *rivals], clock)
    else:
        before = watch()
        found = alternate([ours, *rivals], turns, clock)
        after = watch()
    said = work if isinstance(work, str) else work()
    for rival in rivals:
        ratios = [b / a for a, b in zip(found[ours.name], found[rival.name], strict=True)]
        values = {"ours": quartiles(found[ours.name]), "baseline": quartiles(found[rival.name])}
        row: Row = {"name": name, "work": said, "unit": unit, "baseline_name": rival.name, "turns": turns}
        row |= {"load_before": f"{before:.2f}", "load_after": f"{after:.2f}"}
        row |= {"busy": "busy" if max(before, after) > BUSY else ""}
        for side, key in ((ours, "ours"), (rival, "baseline")):
            row |= _three(key, values[key], "{:.3e}")
            reached = side.flop / values[key][0] / ceiling if side.flop and ceiling else 0.0
            row[f"{key}_of_ceiling"] = f"{reached:.0%}" if reached else ""
        yield row | _three("ratio", quartiles(ratios), "{:.2f}")


def _three(key: str, values: tuple[float, float, float], form: str) -> dict[str, str]:
    names = (key, f"{key}_q1", f"{key}_q3")
    return {name: form.format(value) for name, value in zip(names, values, strict=True)}


def stated(name: str, work: str, unit: str, ours: float, baseline: float, baseline_name: str) -> Row:
    """Return a row of two numbers that are no times, such as bytes, and that a busy machine does not change.

    name: the name of the comparison.
    work: what is done, in words.
    unit: the unit of both numbers.
    ours: the project's number.
    baseline: the number beside it.
    baseline_name: what that number is, in words.
    """
    return dict.fromkeys(COLUMNS, "") | {
        "name": name, "work": work, "unit": unit, "ours": f"{ours:.3e}", "baseline": f"{baseline:.3e}",
        "baseline_name": baseline_name, "ratio": f"{baseline / ours:.2f}",
    }  # fmt: skip


def kept(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows that may be written: those that were not measured on a busy machine."""
    return [row for row in rows if not row["busy"]]
