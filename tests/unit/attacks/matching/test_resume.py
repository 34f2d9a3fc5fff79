"""The loop and CMA-ES, killed and shared out: resumed runs and those of many workers have the same bits."""

import os
import signal
from pathlib import Path

import pytest
import torch
from cmaes import CMA
from deaths import Death, Killed
from loop_trials import TRIALS, bowls, counted, lenet, matched, nothing, same
from torch import Tensor

from leakbench.attacks.matching import loop
from leakbench.attacks.matching.loop import DIVERGED, ENDED, RUNNING, Outcome, Schedule, match
from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.cma_es import Evolution
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.base.artefacts import read_facts
from leakbench.base.processes.workers import Crew
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors


@pytest.mark.parametrize(("workers", "resumable"), [(2, True), (3, False), (9, True)])
def test_workers_give_the_same_bits(workers: int, resumable: bool, tmp_path: Path) -> None:
    """On a network, whose sums would differ with the number of threads; the last chunk is smaller."""
    unknowns, objective = lenet()

    def run(work: Crew) -> Outcome:
        schedule, make = Schedule(6, snapshots=2), lambda: Adam(0.1, 6, True, True)
        return match(unknowns, objective.evaluate, make, nothing, schedule, 2, work)

    same(run(Crew(scratch=tmp_path if resumable else None, workers=workers)), run(Crew()))
    assert len(list(tmp_path.iterdir())) == (3 if resumable else 0)


def test_each_chunk_is_one_workers(tmp_path: Path) -> None:
    def told(rows: Tensor) -> Evaluate:
        (tmp_path / f"{os.getpid()}-{'-'.join(map(str, rows.tolist()))}").touch()
        return bowls()(rows)

    matched(Schedule(3), 1, told, work=Crew(workers=2))
    by: dict[str, set[str]] = {}
    for path in tmp_path.iterdir():
        process, _, rows = path.name.partition("-")
        by.setdefault(process, set()).add(rows)
    assert sorted(map(sorted, by.values())) == [["0", "2", "4"], ["1", "3"]]
    assert str(os.getpid()) not in by


def test_the_caller_does_what_a_dead_worker_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    me = os.getpid()

    def dying(rows: Tensor) -> Evaluate:
        if os.getpid() != me and 1 in rows:
            os.kill(os.getpid(), signal.SIGKILL)
        return bowls()(rows)

    found = matched(Schedule(9), 1, dying, work=Crew(scratch=tmp_path, workers=2))
    same(found, matched(Schedule(9), 1))
    assert capsys.readouterr().err == "a worker ended early: this process does what it has left\n"
    with pytest.raises(ZeroDivisionError):
        matched(Schedule(9), 1, counted(bowls(), [], 4, ZeroDivisionError), work=Crew(workers=2))


# Two trials at a time make 57 evaluations of it, five at a time 20: kills within, between and in the last
# chunk.
@pytest.mark.parametrize(("chunk", "after"), [(2, 1), (2, 20), (2, 37), (2, 56), (5, 9)])
def test_a_killed_run_resumes_to_the_same_bits(chunk: int, after: int, tmp_path: Path, death: Death) -> None:
    work, schedule = Crew(scratch=tmp_path), Schedule(20, 0.5, 3)
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

    def run(work: Crew) -> Outcome:
        schedule, make = Schedule(6, snapshots=2), lambda: LBFGS(1.0, 5, 4)
        return match(unknowns, objective.evaluate, make, objective.group.clip, schedule, 3, work)

    expected = run(Crew())
    with death.meets(2, 3):
        run(Crew(scratch=tmp_path))
    assert read_facts(tmp_path / "3.safetensors")["iteration"] > 0
    same(run(Crew(scratch=tmp_path)), expected)


FOUR, WIDE, POPULATION = 4, 6, 8
TARGETS = torch.arange(FOUR, dtype=torch.float32)


def start() -> Tensors:
    return {"latents": torch.rand(FOUR, 2, 3, generator=torch.Generator().manual_seed(0))}


def bowls_of_members(rows: Tensor) -> Evaluate:
    """Return bowls around t for trial t, of members [trials, population, 2, 3]."""

    def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
        assert unknowns["latents"].shape[1:] == (POPULATION, 2, 3)
        return (unknowns["latents"] - TARGETS[rows][:, None, None, None]).square().sum((2, 3)), {}

    return evaluated


def run(
    rounds: int, evaluate: object = bowls_of_members, chunk: int = FOUR, work: Crew | None = None
) -> loop.Outcome:
    def make() -> Evolution:
        return Evolution(0.5, POPULATION, rounds)

    return match(start(), evaluate, make, lambda found: None, Schedule(rounds), chunk, work)


def test_it_is_the_librarys_own_evolution() -> None:
    rounds = 7
    found = run(rounds)
    for trial in range(FOUR):
        mean = start()["latents"][trial].flatten().double().numpy()
        seed = stream("cma-es", mean.tobytes().hex()) % 2**32
        theirs = CMA(mean=mean, sigma=0.5, population_size=POPULATION, seed=seed)
        best = float("inf")
        for _ in range(rounds):
            asked = [theirs.ask() for _ in range(POPULATION)]
            told = [float((torch.from_numpy(x).float() - trial).square().sum()) for x in asked]
            theirs.tell(list(zip(asked, told, strict=True)))
            best = min(best, *told)
        assert found.final[trial].item() == pytest.approx(best, rel=1e-5)


def test_a_trial_does_not_depend_on_the_others_nor_on_chunks() -> None:
    whole, apart = run(9), run(9, chunk=1)
    assert torch.equal(whole.unknowns["latents"], apart.unknowns["latents"])
    assert torch.equal(whole.losses, apart.losses)
    several = [value.flatten().tolist() for value in whole.unknowns["latents"] - TARGETS[:, None, None]]
    assert len({tuple(value) for value in several}) == FOUR


@pytest.mark.parametrize("at", [1, 5, 11])
def test_a_killed_evolution_goes_on_to_the_same_bits(at: int, tmp_path: Path, death: Death) -> None:
    expected, calls = run(12), list[int]()
    with death.meets(1, at):
        run(12, work=Crew(scratch=tmp_path))
    found = run(12, counted(bowls_of_members, calls), work=Crew(scratch=tmp_path))
    assert len(calls) == 12 - (at - 1)
    assert torch.equal(found.unknowns["latents"], expected.unknowns["latents"])
    torch.testing.assert_close(found.losses, expected.losses, rtol=0, atol=0, equal_nan=True)


def test_a_trial_without_a_loss_is_diverged_and_the_others_go_on() -> None:
    def broken(rows: Tensor) -> Evaluate:
        inner = bowls_of_members(rows)

        def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
            losses, none = inner(unknowns)
            # Trial 2 has no loss at all, of trial 1 some members have none.
            losses[rows == 2] = torch.nan
            losses[rows == 1, :3] = torch.nan
            return losses, none

        return evaluated

    found, sound = run(9, broken), run(9)
    assert (found.status == loop.DIVERGED).tolist() == [False, False, True, False]
    assert torch.equal(found.unknowns["latents"][2], start()["latents"][2])
    assert torch.equal(found.unknowns["latents"][[0, 3]], sound.unknowns["latents"][[0, 3]])
    assert found.final[1] < found.losses[0, 1]


def test_the_state_has_the_trials_first() -> None:
    evolution = Evolution(0.5, POPULATION, 3)
    evolution.step(start(), bowls_of_members(torch.arange(FOUR)), 0)
    assert {name: tuple(value.shape) for name, value in evolution.state.items()} == {
        "start": (FOUR, WIDE), "told": (FOUR, 3, POPULATION), "best": (FOUR,),
    }  # fmt: skip
