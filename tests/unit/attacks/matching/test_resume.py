"""The loop, killed and shared out: a run that resumes and one of many workers have the bits of an undisturbed
one."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from loop_trials import TRIALS, Killed, bowls, due_always, killing, lenet, nothing, same, start, steady
from torch import Tensor

from leakbench.attacks.matching.loop import DIVERGED, ENDED, RUNNING, Outcome, Schedule, match
from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.base.artefacts import read_facts
from leakbench.base.processes.workers import Work


@pytest.mark.parametrize(("workers", "resumable"), [(2, True), (3, False), (9, True)])
def test_workers_give_the_same_bits(workers: int, resumable: bool, tmp_path: Path) -> None:
    """On a network, whose sums would differ with the number of threads; chunks of two, so that one is
    smaller."""
    unknowns, objective = lenet()

    def run(work: Work) -> Outcome:
        return match(
            unknowns, objective.evaluate, lambda: Adam(0.1, 6, True, True), nothing, Schedule(6, snapshots=2),
            2, work
        )  # fmt: skip

    expected = run(Work())
    same(run(Work(scratch=tmp_path if resumable else None, workers=workers)), expected)
    assert len(list(tmp_path.iterdir())) == (3 if resumable else 0)


def test_each_chunk_is_one_workers(tmp_path: Path) -> None:
    def told(rows: Tensor) -> Evaluate:
        (tmp_path / f"{os.getpid()}-{'-'.join(map(str, rows.tolist()))}").touch()
        return bowls()(rows)

    match(start(), told, steady, nothing, Schedule(3), 1, Work(workers=2))
    by: dict[str, set[str]] = {}
    for path in tmp_path.iterdir():
        process, _, rows = path.name.partition("-")
        by.setdefault(process, set()).add(rows)
    assert sorted(map(sorted, by.values())) == [["0", "2", "4"], ["1", "3"]]
    assert str(os.getpid()) not in by


def test_what_a_dead_worker_leaves_is_done_by_the_caller(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    me = os.getpid()

    def dying(rows: Tensor) -> Evaluate:
        if os.getpid() != me and 1 in rows:
            os.kill(os.getpid(), signal.SIGKILL)
        return bowls()(rows)

    found = match(start(), dying, steady, nothing, Schedule(9), 1, Work(scratch=tmp_path, workers=2))
    same(found, match(start(), bowls(), steady, nothing, Schedule(9), 1))
    assert capsys.readouterr().err == "a worker ended early: this process does what it has left\n"


def test_the_error_of_a_worker_is_met() -> None:
    def broken(rows: Tensor) -> Evaluate:
        if 3 in rows:
            raise ZeroDivisionError
        return bowls()(rows)

    with pytest.raises(ZeroDivisionError):
        match(start(), broken, steady, nothing, Schedule(9), 1, Work(workers=2))


# Two trials at a time make 57 evaluations of it, five at a time 20: kills within, between and in the last
# chunk.
@pytest.mark.parametrize(("chunk", "after"), [(2, 1), (2, 20), (2, 37), (2, 56), (5, 9)])
def test_a_killed_run_resumes_to_the_same_bits(
    chunk: int, after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_always(monkeypatch)
    work = Work(scratch=tmp_path)

    def run(evaluate: Callable[[Tensor], Evaluate], work: Work) -> Outcome:
        return match(start(), evaluate, steady, nothing, Schedule(20, 0.5, 3), chunk, work)

    counted, whole = killing(bowls({3: 4}), 10**9)
    expected = run(counted, Work())
    assert set(expected.status.tolist()) == {RUNNING, ENDED, DIVERGED}
    stopped, calls = killing(bowls({3: 4}), after)
    assert after < len(whole)
    with pytest.raises(Killed):
        run(stopped, work)
    counted, rest = killing(bowls({3: 4}), 10**9)
    same(run(counted, work), expected)
    # It went on from where it was: the calls of both runs are those of one, but for the one that was cut off.
    assert len(calls) - 1 + len(rest) == len(whole)
    # What is done is not done again, and lies in a file for each chunk.
    counted, rest = killing(bowls({3: 4}), 10**9)
    same(run(counted, work), expected)
    assert rest == []
    assert {path.name for path in tmp_path.iterdir()} == {f"{n}.safetensors" for n in range(0, TRIALS, chunk)}


@pytest.mark.parametrize("kind", ["adam", "lbfgs"])
def test_a_killed_match_of_images_resumes_to_the_same_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_always(monkeypatch)
    unknowns, objective = lenet()

    def run(evaluate: Callable[[Tensor], Evaluate], work: Work) -> Outcome:
        return match(
            unknowns,
            evaluate,
            lambda: Adam(0.1, 6, True, True) if kind == "adam" else LBFGS(1.0, 5, 4),
            lambda found: objective.group.clip(found),
            Schedule(6, snapshots=2),
            3,
            work,
        )

    expected = run(objective.evaluate, Work())
    stopped, _ = killing(objective.evaluate, 9 if kind == "adam" else 34)
    with pytest.raises(Killed):
        run(stopped, Work(scratch=tmp_path))
    assert read_facts(tmp_path / "3.safetensors")["iteration"] > 0
    same(run(objective.evaluate, Work(scratch=tmp_path)), expected)


def test_a_resumed_run_does_start_from_what_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the tests above: what was saved of another start leads elsewhere."""
    due_always(monkeypatch)
    work = Work(scratch=tmp_path)
    stopped, _ = killing(bowls(), 4)
    with pytest.raises(Killed):
        match({"x": start()["x"] - 5}, stopped, steady, nothing, Schedule(6), TRIALS, work)
    resumed = match(start(), bowls(), steady, nothing, Schedule(6), TRIALS, work)
    whole = match(start(), bowls(), steady, nothing, Schedule(6), TRIALS)
    assert not torch.equal(resumed.unknowns["x"], whole.unknowns["x"])
