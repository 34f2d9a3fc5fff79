"""The gradient-matching loop: all trials of a cell, chunk by chunk. Killed runs resume to the same result."""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from leakbench.attacks.matching.optimiser import Evaluate, Optimiser
from leakbench.base.processes.workers import Crew, one_thread, side_by_side
from leakbench.base.progress import track
from leakbench.base.resume import resume, save
from leakbench.base.tensors import Tensors

RUNNING, ENDED, DIVERGED = 0, 1, 2
TRACED = 100
# Takes the unknowns of the trials with these numbers; returns what is kept of them.
Show = Callable[[Tensors, Tensor], Tensors]
_DONE = ("losses", "status", "iterations", "final")


@dataclass(frozen=True)
class Schedule:
    """How many steps trials run, the loss that is `enough` to end one, and how often unknowns are kept."""

    iterations: int
    enough: float = -math.inf
    snapshots: int = 0

    @property
    def kept(self) -> tuple[int, ...]:
        """The iterations after which the unknowns are kept, without the last iteration of all."""
        places = (round(self.iterations * i / (self.snapshots + 1)) for i in range(1, self.snapshots + 1))
        return tuple(sorted({place for place in places if 0 < place < self.iterations}))


@dataclass
class Outcome:
    """What became of each trial.

    unknowns: name → [trials, …], as `show` returns them.
    snapshots: the same after each of the schedule's `kept` iterations, [snapshots, trials, …].
    losses: [points, trials], the losses at the iterations `traced`; NaN after a trial's end.
    status: [trials], RUNNING (to the last iteration), ENDED early or DIVERGED.
    iterations: [trials], the steps taken.
    final: [trials], the loss at the last step.
    """

    unknowns: Tensors
    snapshots: Tensors
    losses: Tensor
    traced: Tensor
    status: Tensor
    iterations: Tensor
    final: Tensor


def traced(iterations: int) -> list[int]:
    """Return the iterations whose losses are kept: about TRACED, evenly spaced, with the last among them."""
    return sorted({round(i) for i in np.linspace(0, max(iterations - 1, 0), min(TRACED, max(iterations, 1)))})


def measured_bytes(evaluate: Evaluate, unknowns: Tensors) -> int:
    """Return the bytes that one evaluation of `unknowns` keeps for its backward passes, by running it."""
    # No address tells storages apart, since memory that is free again is used again, in one process sooner
    # than in another. The bits of a result depend on this number, by the size of a chunk.
    kept: dict[StorageWeakRef, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[StorageWeakRef(storage)] = storage.nbytes()
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
    work: Crew | None = None,
    show: Show = lambda unknowns, rows: unknowns,
) -> Outcome:
    """Optimise every trial, `chunk` trials together."""
    trials = len(next(iter(start.values())))
    work = work or Crew()
    recipe = _Recipe(evaluate, optimiser, project, schedule, show)

    def done(first: int, scratch: Path | None) -> Outcome:
        rows = torch.arange(first, min(first + chunk, trials))
        label = f"{work.label}, trials from {first} of {trials}"
        file = scratch and scratch / f"{first}.safetensors"
        return _chunk(recipe, rows, {name: value[rows] for name, value in start.items()}, file, label)

    firsts = range(0, trials, chunk)
    with one_thread(), _folder(work, len(firsts)) as scratch:
        tasks = [partial(done, first, scratch) for first in firsts]
        side_by_side(tasks, work.workers)
        return _joined([task() for task in tasks])


@contextmanager
def _folder(work: Crew, chunks: int) -> Iterator[Path | None]:
    """Give the folder for finished work. Workers need one even if no run is to be resumed."""
    if work.scratch is None and min(work.workers, chunks) > 1:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        yield work.scratch


def _joined(parts: Sequence[Outcome]) -> Outcome:
    names = parts[0].unknowns
    return Outcome(
        unknowns={name: torch.cat([part.unknowns[name] for part in parts]) for name in names},
        snapshots={name: torch.cat([part.snapshots[name] for part in parts], 1) for name in names},
        traced=parts[0].traced,
        **{name: torch.cat([getattr(part, name) for part in parts], -1) for name in _DONE},
    )


@dataclass(frozen=True)
class _Recipe:
    """How every chunk is optimised: the arguments of `match` with the same names."""

    evaluate: Callable[[Tensor], Evaluate]
    optimiser: Callable[[], Optimiser]
    project: Callable[[Tensors], None]
    schedule: Schedule
    show: Show


def _chunk(recipe: _Recipe, rows: Tensor, start: Tensors, scratch: Path | None, label: str) -> Outcome:
    """Optimise the trials `rows`, which begin at `start`; resume from the file `scratch` if it exists."""
    schedule = recipe.schedule
    trials, points = len(rows), traced(schedule.iterations)
    shown = recipe.show(start, rows)
    outcome = Outcome(
        unknowns={name: value.cpu().clone() for name, value in shown.items()},
        snapshots={
            name: torch.zeros(len(schedule.kept), *v.shape, dtype=v.dtype) for name, v in shown.items()
        },
        losses=torch.full((len(points), trials), torch.nan),
        traced=torch.tensor(points),
        status=torch.full((trials,), RUNNING),
        iterations=torch.full((trials,), schedule.iterations),
        final=torch.full((trials,), torch.nan),
    )
    live = _Live(torch.arange(trials), {name: value.clone() for name, value in start.items()}, {})
    begin = 0
    if scratch is not None and scratch.is_file():
        begin = _resume(scratch, outcome, live, next(iter(start.values())).device)
    if begin == schedule.iterations:
        return outcome
    moved = recipe.optimiser()
    moved.state = live.state
    step = recipe.evaluate(rows[live.places])
    for iteration, due in track(range(begin, schedule.iterations), label):
        if due and scratch is not None:
            live.state = moved.state
            _save(scratch, iteration, outcome, live)
        losses = moved.step(live.unknowns, step, iteration).cpu()
        recipe.project(live.unknowns)
        ended = _note(outcome, live, iteration, losses, recipe, rows)
        if ended.any() and iteration + 1 < schedule.iterations:
            going = ~ended
            live = _Live(
                live.places[going],
                {name: value[going] for name, value in live.unknowns.items()},
                {name: value[going] for name, value in moved.state.items()},
            )
            if not len(live.places):
                break
            moved.state, step = live.state, recipe.evaluate(rows[live.places])
    if scratch is not None:
        _save(scratch, schedule.iterations, outcome, _Live(rows[:0], {}, {}))
    return outcome


@dataclass
class _Live:
    """The trials of a chunk that still run: their places in it, unknowns, and the optimiser's state."""

    places: Tensor
    unknowns: Tensors
    state: Tensors


def _note(
    outcome: Outcome, live: _Live, iteration: int, losses: Tensor, recipe: _Recipe, trials: Tensor
) -> Tensor:
    """Note the result of one step: trace, snapshots, and the final values of trials that end with it."""
    rows, schedule = live.places, recipe.schedule
    points = outcome.traced.tolist()
    if iteration in points:
        outcome.losses[points.index(iteration), rows] = losses.float()
    lost, enough = ~losses.isfinite(), losses <= schedule.enough
    ended = lost | enough
    some, last = bool(ended.any()), iteration + 1 == schedule.iterations
    told = some or last or iteration + 1 in schedule.kept
    for name, there in (recipe.show(live.unknowns, trials[rows]) if told else {}).items():
        value = there.cpu()
        for place, kept in enumerate(schedule.kept):
            if kept == iteration + 1:
                outcome.snapshots[name][place, rows] = value
            elif kept > iteration + 1 and some:
                outcome.snapshots[name][place, rows[ended]] = value[ended]
        if some or last:
            outcome.unknowns[name][rows] = value
    outcome.final[rows] = losses.float()
    if some:
        outcome.status[rows[enough]] = ENDED
        outcome.status[rows[lost]] = DIVERGED
        outcome.iterations[rows[ended]] = iteration + 1
    return ended


def _save(scratch: Path, iteration: int, outcome: Outcome, live: _Live) -> None:
    groups = {
        "unknowns": outcome.unknowns,
        "snapshots": outcome.snapshots,
        "done": {name: getattr(outcome, name) for name in _DONE} | {"places": live.places},
        "live": live.unknowns,
        "state": live.state,
    }
    save(scratch, groups, {"iteration": iteration})


def _resume(scratch: Path, outcome: Outcome, live: _Live, device: torch.device) -> int:
    """Fill `outcome` and `live` with the work done before the run was killed; return the next iteration."""
    groups, facts = resume(scratch)
    outcome.unknowns, outcome.snapshots = groups["unknowns"], groups["snapshots"]
    live.places = groups["done"].pop("places")
    for name, value in groups["done"].items():
        setattr(outcome, name, value)
    live.unknowns, live.state = (
        {name: value.to(device) for name, value in groups.get(group, {}).items()}
        for group in ("live", "state")
    )
    return int(facts["iteration"])
