"""The gradient-matching loop: all trials of a cell, chunk by chunk, resumable to the same result."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leakbench.artefacts import read_tensors, write_tensors
from leakbench.matching.optimisers import Evaluate, Optimiser, Tensors
from leakbench.progress import track

RUNNING, ENDED, DIVERGED = 0, 1, 2
TRACED = 100
_DONE = ("losses", "status", "iterations", "final")


@dataclass(frozen=True)
class Schedule:
    """How long trials run. A trial ends early once its loss is at most `enough`.

    `snapshots`: how often the unknowns are kept on the way, evenly spaced.
    """

    iterations: int
    enough: float = -math.inf
    snapshots: int = 0

    @property
    def kept(self) -> tuple[int, ...]:
        """The iterations after which the unknowns are kept, the last of all not among them."""
        places = (round(self.iterations * i / (self.snapshots + 1)) for i in range(1, self.snapshots + 1))
        return tuple(sorted({place for place in places if 0 < place < self.iterations}))


@dataclass
class Outcome:
    """What became of each trial.

    unknowns: name → [trials, …]. snapshots: the same at each of the schedule's, [snapshots, trials, …]. losses: trace
    [points, trials], at iterations `traced` [points], NaN after a trial's end. status: RUNNING (to the last iteration),
    ENDED early or DIVERGED. iterations: [trials] steps taken.
    """

    unknowns: Tensors
    snapshots: Tensors
    losses: Tensor
    traced: Tensor
    status: Tensor
    iterations: Tensor
    final: Tensor


def traced(iterations: int) -> list[int]:
    """Return the iterations whose losses are kept: about TRACED of them, evenly spaced, the last among them."""
    return sorted({round(i) for i in np.linspace(0, max(iterations - 1, 0), min(TRACED, max(iterations, 1)))})


def measured_bytes(evaluate: Evaluate, unknowns: Tensors) -> int:
    """Return the bytes that one evaluation keeps for its backward pass, by running it."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        evaluate(unknowns)
    return sum(kept.values())


def match(
    start: Tensors,
    evaluate: Callable[[Tensor], Evaluate],
    optimiser: Callable[[], Optimiser],
    project: Callable[[Tensors], None],
    schedule: Schedule,
    chunk: int,
    scratch: Path | None = None,
    label: str = "match",
) -> Outcome:
    """Optimise every trial of `start` (name → [trials, …]); each trial's result is the same for every `chunk`.

    `evaluate(rows)` gives losses and gradients of the trials `rows`; `project` puts unknowns back where they may be.
    `scratch` is the file from which a killed run resumes.
    """
    trials = len(next(iter(start.values())))
    points = traced(schedule.iterations)
    kept = len(schedule.kept)
    outcome = Outcome(
        unknowns={name: value.clone() for name, value in start.items()},
        snapshots={name: value.new_zeros(kept, *value.shape) for name, value in start.items()},
        losses=torch.full((len(points), trials), torch.nan),
        traced=torch.tensor(points),
        status=torch.full((trials,), RUNNING),
        iterations=torch.full((trials,), schedule.iterations),
        final=torch.full((trials,), torch.nan),
    )
    live, begin = _resume(scratch, outcome)
    first = int(live.rows[0]) // chunk * chunk if live else 0
    for number in range(first, trials, chunk):
        if live is None:
            rows = torch.arange(number, min(number + chunk, trials))
            live = _Live(rows, {name: value[rows].clone() for name, value in start.items()}, {})
        moved = optimiser()
        moved.state = live.state
        step = evaluate(live.rows)
        for iteration, due in track(
            range(begin, schedule.iterations), f"{label}, trials from {number} of {trials}"
        ):
            if due and scratch is not None:
                live.state = moved.state
                _save(scratch, iteration, outcome, live)
            losses = moved.step(live.unknowns, step, iteration).cpu()
            project(live.unknowns)
            _note(outcome, live, iteration, losses, schedule)
            ended = ~losses.isfinite() | (losses <= schedule.enough)
            if ended.any() and iteration + 1 < schedule.iterations:
                going = ~ended
                live = _Live(
                    live.rows[going],
                    {name: value[going] for name, value in live.unknowns.items()},
                    {name: value[going] for name, value in moved.state.items()},
                )
                if not len(live.rows):
                    break
                moved.state, step = live.state, evaluate(live.rows)
        live, begin = None, 0
    if scratch is not None:
        scratch.unlink(missing_ok=True)
    return outcome


@dataclass
class _Live:
    """The trials of a chunk that still run: their numbers, unknowns and the optimiser's state."""

    rows: Tensor
    unknowns: Tensors
    state: Tensors


def _note(outcome: Outcome, live: _Live, iteration: int, losses: Tensor, schedule: Schedule) -> None:
    """Write down what one step gave: trace, snapshots, and the last word on trials that end with it."""
    rows = live.rows
    points = outcome.traced.tolist()
    if iteration in points:
        outcome.losses[points.index(iteration), rows] = losses.float()
    ended = ~losses.isfinite() | (losses <= schedule.enough)
    last = iteration + 1 == schedule.iterations
    for name, value in live.unknowns.items():
        for place, kept in enumerate(schedule.kept):
            if kept == iteration + 1:
                outcome.snapshots[name][place, rows] = value
            elif kept > iteration + 1 and ended.any():
                outcome.snapshots[name][place, rows[ended]] = value[ended]
        if ended.any() or last:
            outcome.unknowns[name][rows] = value
    outcome.final[rows] = losses.float()
    outcome.status[rows[losses <= schedule.enough]] = ENDED
    outcome.status[rows[~losses.isfinite()]] = DIVERGED
    outcome.iterations[rows[ended]] = iteration + 1


def _save(scratch: Path, iteration: int, outcome: Outcome, live: _Live) -> None:
    parts = {
        "unknowns": outcome.unknowns,
        "snapshots": outcome.snapshots,
        "done": {name: getattr(outcome, name) for name in _DONE},
        "live": live.unknowns,
        "state": live.state,
    }
    tensors = {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}
    tensors["rows"] = live.rows
    write_tensors(scratch, {n: v.cpu().numpy() for n, v in tensors.items()}, {"iteration": iteration})


def _resume(scratch: Path | None, outcome: Outcome) -> tuple[_Live | None, int]:
    """Fill `outcome` with what was done before the run was killed; return the live trials and their next iteration."""
    if scratch is None or not scratch.is_file():
        return None, 0
    tensors, facts = read_tensors(scratch)
    parts: dict[str, Tensors] = {
        part: {} for part in ("unknowns", "snapshots", "done", "live", "state", "rows")
    }
    for name, array in tensors.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = torch.from_numpy(array)
    outcome.unknowns, outcome.snapshots = parts["unknowns"], parts["snapshots"]
    for name, value in parts["done"].items():
        setattr(outcome, name, value)
    return _Live(parts["rows"][""], parts["live"], parts["state"]), int(facts["iteration"])
