"""CMA-ES of many trials: it comes down, trials stay apart, and what was killed goes on to the same bits."""

from pathlib import Path

import pytest
import torch
from cmaes import CMA
from deaths import Death
from loop_trials import counted
from torch import Tensor

from leakbench.attacks.matching import loop
from leakbench.attacks.matching.loop import Schedule, match
from leakbench.attacks.matching.optimiser import Evaluate
from leakbench.attacks.matching.optimisers.cma_es import Evolution
from leakbench.base.processes.workers import Work
from leakbench.base.seeds import stream
from leakbench.base.tensors import Tensors

TRIALS, WIDE, POPULATION = 4, 6, 8
TARGETS = torch.arange(TRIALS, dtype=torch.float32)


def start() -> Tensors:
    return {"latents": torch.rand(TRIALS, 2, 3, generator=torch.Generator().manual_seed(0))}


def bowls(rows: Tensor) -> Evaluate:
    """Return bowls around t for trial t, of members [trials, population, 2, 3]."""

    def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
        assert unknowns["latents"].shape[1:] == (POPULATION, 2, 3)
        return (unknowns["latents"] - TARGETS[rows][:, None, None, None]).square().sum((2, 3)), {}

    return evaluated


def run(rounds: int, evaluate: object = bowls, chunk: int = TRIALS, work: Work | None = None) -> loop.Outcome:
    def make() -> Evolution:
        return Evolution(0.5, POPULATION, rounds)

    return match(start(), evaluate, make, lambda found: None, Schedule(rounds), chunk, work)


def test_it_is_the_librarys_own_evolution() -> None:
    rounds = 7
    found = run(rounds)
    for trial in range(TRIALS):
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
    assert len({tuple(value) for value in several}) == TRIALS


@pytest.mark.parametrize("at", [1, 5, 11])
def test_a_killed_evolution_goes_on_to_the_same_bits(at: int, tmp_path: Path, death: Death) -> None:
    expected, calls = run(12), list[int]()
    with death.meets(1, at):
        run(12, work=Work(scratch=tmp_path))
    found = run(12, counted(bowls, calls), work=Work(scratch=tmp_path))
    assert len(calls) == 12 - (at - 1)
    assert torch.equal(found.unknowns["latents"], expected.unknowns["latents"])
    torch.testing.assert_close(found.losses, expected.losses, rtol=0, atol=0, equal_nan=True)


def test_a_trial_without_a_loss_is_diverged_and_the_others_go_on() -> None:
    def broken(rows: Tensor) -> Evaluate:
        inner = bowls(rows)

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
    evolution.step(start(), bowls(torch.arange(TRIALS)), 0)
    assert {name: tuple(value.shape) for name, value in evolution.state.items()} == {
        "start": (TRIALS, WIDE), "told": (TRIALS, 3, POPULATION), "best": (TRIALS,),
    }  # fmt: skip
