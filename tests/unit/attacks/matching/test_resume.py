"""The loop, killed and shared out: resumed runs and those of many workers have the bits of a single one."""

import os
import signal
from pathlib import Path

import pytest
from deaths import Death, Killed
from loop_trials import TRIALS, bowls, counted, lenet, matched, nothing, same
from torch import Tensor

from leakbench.attacks.matching.loop import DIVERGED, ENDED, RUNNING, Outcome, Schedule, match
from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.base.artefacts import read_facts
from leakbench.base.processes.workers import Work


@pytest.mark.parametrize(("workers", "resumable"), [(2, True), (3, False), (9, True)])
def test_workers_give_the_same_bits(workers: int, resumable: bool, tmp_path: Path) -> None:
    """On a network, whose sums would differ with the number of threads; the last chunk is smaller."""
    unknowns, objective = lenet()

    def run(work: Work) -> Outcome:
        schedule, make = Schedule(6, snapshots=2), lambda: Adam(0.1, 6, True, True)
        return match(unknowns, objective.evaluate, make, nothing, schedule, 2, work)

    same(run(Work(scratch=tmp_path if resumable else None, workers=workers)), run(Work()))
    assert len(list(tmp_path.iterdir())) == (3 if resumable else 0)


def test_each_chunk_is_one_workers(tmp_path: Path) -> None:
    def told(rows: Tensor) -> Evaluate:
        (tmp_path / f"{os.getpid()}-{'-'.join(map(str, rows.tolist()))}").touch()
        return bowls()(rows)

    matched(Schedule(3), 1, told, work=Work(workers=2))
    by: dict[str, set[str]] = {}
    for path in tmp_path.iterdir():
        process, _, rows = path.name.partition("-")
        by.setdefault(process, set()).add(rows)
    assert sorted(map(sorted, by.values())) == [["0", "2", "4"], ["1", "3"]]
    assert str(os.getpid()) not in by


def test_what_a_dead_worker_leaves_is_done_by_the_caller_and_its_error_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    me = os.getpid()

    def dying(rows: Tensor) -> Evaluate:
        if os.getpid() != me and 1 in rows:
            os.kill(os.getpid(), signal.SIGKILL)
        return bowls()(rows)

    found = matched(Schedule(9), 1, dying, work=Work(scratch=tmp_path, workers=2))
    same(found, matched(Schedule(9), 1))
    assert capsys.readouterr().err == "a worker ended early: this process does what it has left\n"
    with pytest.raises(ZeroDivisionError):
        matched(Schedule(9), 1, counted(bowls(), [], 4, ZeroDivisionError), work=Work(workers=2))


# Two trials at a time make 57 evaluations of it, five at a time 20: kills within, between and in the last
# chunk.
@pytest.mark.parametrize(("chunk", "after"), [(2, 1), (2, 20), (2, 37), (2, 56), (5, 9)])
def test_a_killed_run_resumes_to_the_same_bits(chunk: int, after: int, tmp_path: Path, death: Death) -> None:
    work, schedule = Work(scratch=tmp_path), Schedule(20, 0.5, 3)
    whole, calls, rest, none = (list[int]() for _ in range(4))
    expected = matched(schedule, chunk, counted(bowls({3: 4}), whole))
    assert set(expected.status.tolist()) == {RUNNING, ENDED, DIVERGED}
    assert after < len(whole)
    with pytest.raises(Killed):
        matched(schedule, chunk, counted(bowls({3: 4}), calls, after, Killed), work=work)
    same(matched(schedule, chunk, counted(bowls({3: 4}), rest), work=work), expected)
    # It went on from where it was: the calls of both runs are those of one, but for the one that was cut off.
    assert len(calls) - 1 + len(rest) == len(whole)
    # What is done is not done again, and lies in a file for each chunk.
    same(matched(schedule, chunk, counted(bowls({3: 4}), none), work=work), expected)
    assert none == []
    assert {path.name for path in tmp_path.iterdir()} == {f"{n}.safetensors" for n in range(0, TRIALS, chunk)}


def test_a_killed_match_of_images_resumes_to_the_same_bits(tmp_path: Path, death: Death) -> None:
    unknowns, objective = lenet()

    def run(work: Work) -> Outcome:
        schedule, make = Schedule(6, snapshots=2), lambda: LBFGS(1.0, 5, 4)
        return match(unknowns, objective.evaluate, make, objective.group.clip, schedule, 3, work)

    expected = run(Work())
    with death.meets(2, 3):
        run(Work(scratch=tmp_path))
    assert read_facts(tmp_path / "3.safetensors")["iteration"] > 0
    same(run(Work(scratch=tmp_path)), expected)
