"""The loop over trials, and the whole loss of a trial: its derivative, its parts, its memory."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from loop_trials import TRIALS, bowls, counted, matched, nothing, same, start, steady
from torch import Tensor, nn
from trial_networks import CLASSES, everything, group, network, ones, terms

from leakbench.attacks.matching import objective as module
from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.loop import DIVERGED, ENDED, RUNNING, Schedule, match, measured_bytes, traced
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.attacks.matching.parameterisation import AT_ONCE
from leakbench.attacks.matching.trials import Group


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_chunks_agree_bit_for_bit_where_the_objective_does(chunk: int) -> None:
    one, other = (matched(Schedule(30, 0.5, 3), size, bowls({3: 4})) for size in (chunk, TRIALS))
    same(one, other)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_diverging_trial_is_marked_and_disturbs_no_other(value: float) -> None:
    schedule, others = Schedule(12, snapshots=2), [0, 1, 3, 4]
    sound, found = matched(schedule), matched(schedule, evaluate=bowls({2: 4}, value))
    assert found.status.tolist() == [RUNNING, RUNNING, DIVERGED, RUNNING, RUNNING]
    # -1 + 4 · 0.1 is beyond: the fifth loss is no number.
    assert found.iterations.tolist() == [12, 12, 5, 12, 12]
    assert torch.equal(found.unknowns["x"][others], sound.unknowns["x"][others])
    assert torch.equal(found.losses[:, others], sound.losses[:, others])
    assert torch.equal(found.snapshots["x"][:, others], sound.snapshots["x"][:, others])
    torch.testing.assert_close(found.unknowns["x"][2], torch.full((3,), -0.6, dtype=torch.float64))
    assert (found.final.isfinite() == (found.status == RUNNING)).all()
    assert found.losses[:4, 2].isfinite().all()
    assert found.losses[5:, 2].isnan().all()
    # With the last step, too.
    last = matched(Schedule(5), evaluate=bowls({2: 4}, value))
    assert torch.equal(last.status, found.status)
    assert last.iterations.tolist() == [5] * TRIALS


def test_a_trial_ends_once_its_loss_is_low_enough() -> None:
    calls: list[int] = []
    # Trial t starts t + 1 away and goes 0.1 a step; 3 · 0.25² is below 0.2, 3 · 0.35² is not.
    found = matched(Schedule(25, 0.2), evaluate=counted(bowls(), calls))
    assert found.status.tolist() == [ENDED, ENDED, RUNNING, RUNNING, RUNNING]
    assert found.iterations.tolist() == [9, 19, 25, 25, 25]
    assert found.final[0] <= 0.2
    assert calls == [5] * 9 + [4] * 10 + [3] * 6
    # Whole runs of the others are not touched by it.
    assert torch.equal(found.unknowns["x"][2:], matched(Schedule(25)).unknowns["x"][2:])
    all_ = matched(Schedule(1000, 0.2), 2)
    assert all_.status.tolist() == [ENDED] * TRIALS
    assert all_.iterations.tolist() == [9, 19, 29, 39, 49]
    assert all_.final.isfinite().all()


def test_snapshots_are_the_unknowns_on_the_way() -> None:
    schedule = Schedule(12, snapshots=3)
    assert schedule.kept == (3, 6, 9)
    found = matched(schedule, 2)
    assert found.snapshots["x"].shape == (3, TRIALS, 3)
    for place, kept in enumerate(schedule.kept):
        assert torch.equal(found.snapshots["x"][place], matched(Schedule(kept), 2).unknowns["x"])


def test_snapshots_after_a_trials_end_show_its_end() -> None:
    found = matched(Schedule(40, 0.2, 3))
    assert found.iterations.tolist() == [9, 19, 29, 39, 40]
    same_ = [[torch.equal(kept[t], found.unknowns["x"][t]) for t in (0, 1)] for kept in found.snapshots["x"]]
    assert same_ == [[True, False], [True, True], [True, True]]


@pytest.mark.parametrize(("iterations", "snapshots"), [(1, 5), (3, 5), (10, 0)])
def test_no_more_snapshots_than_there_are_iterations_before_the_last(iterations: int, snapshots: int) -> None:
    kept = Schedule(iterations, snapshots=snapshots).kept
    assert len(kept) == min(snapshots, iterations - 1)
    assert all(0 < place < iterations for place in kept)


@pytest.mark.parametrize("iterations", [1, 2, 99, 100, 101, 250, 10_000])
def test_the_trace_has_at_most_a_hundred_points_the_first_and_the_last_among_them(iterations: int) -> None:
    points = traced(iterations)
    assert len(points) == min(iterations, 100)
    assert (points[0], points[-1]) == (0, iterations - 1)
    assert points == sorted(set(points))


def test_the_trace_is_the_loss_before_each_step_and_a_start_is_not_changed() -> None:
    given = start()
    found = match(given, bowls(), steady, nothing, Schedule(4), 2)
    assert torch.equal(given["x"], start()["x"])
    assert found.traced.tolist() == [0, 1, 2, 3]
    for trial in range(TRIALS):
        expected = [3 * (trial + 1 - 0.1 * step) ** 2 for step in range(4)]
        assert found.losses[:, trial].tolist() == pytest.approx(expected, rel=1e-6)
    assert torch.equal(found.final, found.losses[-1])


def test_unknowns_are_put_back_where_they_may_be_after_each_step() -> None:
    def fence(unknowns: dict[str, Tensor]) -> None:
        unknowns["x"].clamp_(max=-0.75)

    assert (matched(Schedule(9), 2, project=fence).unknowns["x"] == -0.75).all()


def test_measured_bytes_count_a_storage_once_and_all_memory_that_is_used_again() -> None:
    """Addresses of freed memory come back in some processes, and a chunk's size follows from these bytes."""

    def evaluate(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        for _ in range(5):
            x = unknowns["x"].clone().requires_grad_()
            y = x.exp()
            torch.autograd.grad((y * y.view_as(y)).sum(), x)
        return x.detach(), {}

    found = [measured_bytes(evaluate, {"x": torch.rand(n, 1000)}) for n in (1, 10)]
    assert found == [5 * 4000, 5 * 40000]


def test_what_is_shown_is_kept_in_place_of_the_unknowns() -> None:
    """A parameterisation's images, with the trials they belong to, on the way and at the end."""

    def show(unknowns: dict[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
        return {"double": unknowns["x"][:, :1] * 2 + 100 * rows[:, None]}

    schedule, rows = Schedule(20, 0.5, 3), 100 * torch.arange(TRIALS)[:, None]
    plain = matched(schedule, 2, bowls({3: 4}))
    shown = matched(schedule, 2, bowls({3: 4}), show=show)
    assert set(shown.unknowns) == {"double"}
    torch.testing.assert_close(shown.unknowns["double"], plain.unknowns["x"][:, :1] * 2 + rows)
    torch.testing.assert_close(shown.snapshots["double"], plain.snapshots["x"][:, :, :1] * 2 + rows)
    assert torch.equal(shown.status, plain.status)


SHAPE = (8, 8, 2)
ADAM = Adam(0.1, 1, False, False)


def trials(known: bool = True, count: int = 2, batch: int = 2, **options: Any) -> Group:
    torch.manual_seed(3)
    model = network("lenet_dlg", {}, SHAPE)
    images = torch.rand(count, batch, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (count, batch)), known, **options)


def first(of: Group) -> dict[str, Tensor]:
    drawn = of.draw("normal", torch.Generator().manual_seed(4))
    return {name: value.double() for name, value in drawn.items()}


def test_rows_are_the_trials_that_are_asked_for() -> None:
    of = trials(count=4)
    unknowns, shares = first(of), torch.rand(4, dtype=torch.float64)

    def weigh(model: nn.Module, observed: dict[str, Tensor]) -> dict[str, Tensor]:
        # A weight for each trial, known by what was observed of it.
        last = list(observed)[-1]
        everywhere = everything(of)[last]
        trial = [(everywhere == value).all(1).nonzero().item() for value in observed[last]]
        return dict.fromkeys(observed, shares[trial])

    objective = Objective(of, terms("squares", weigh, 0.01))
    losses, moves = objective.evaluate(torch.arange(4))(unknowns)
    rows = torch.tensor([3, 1])
    some, part = objective.evaluate(rows)({"images": unknowns["images"][rows]})
    torch.testing.assert_close(some, losses[rows], rtol=1e-12, atol=0)
    torch.testing.assert_close(part["images"], moves["images"][rows], rtol=1e-9, atol=1e-12)


def test_a_chunk_depends_on_one_trial_and_not_on_how_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (Objective(of, terms("squares", ones, 0.0)) for of in (trials(count=2), trials(count=9)))
    assert few.chunk(ADAM) == many.chunk(ADAM) > 1
    unknowns = {name: value[:1].float() for name, value in first(few.group).items()}
    one = measured_bytes(few.evaluate(torch.arange(1)), unknowns)
    one += sum(value.nbytes for value in few.group.observed(torch.arange(1)).values())
    one += 2 * unknowns["images"].nbytes
    for share, expected in ((0.5, 1), (1.5, 1), (7.5, 7)):
        monkeypatch.setattr(module, "WORKING_BYTES", int(one * share))
        assert few.chunk(ADAM) == expected


def test_what_an_optimiser_remembers_makes_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORKING_BYTES", 1_000_000)
    objective = Objective(trials(), terms("squares", ones, 0.0))
    assert objective.chunk(LBFGS(1.0, 100, 20)) < objective.chunk(ADAM)


def test_small_trials_leave_chunks_for_workers_and_frozen_differences_go_trial_by_trial() -> None:
    of = trials(count=90)
    for engine, expected in ((None, AT_ONCE), (FrozenDifference, 1)):
        assert Objective(of, terms("squares", ones, 0.0), engine=engine).chunk(ADAM) == expected


def test_only_the_updates_of_the_trials_at_work_are_read() -> None:
    """The updates of a cell may be larger than memory."""
    of = trials(count=9)
    asked = []

    class File(np.ndarray):
        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, tuple):
                asked.append(len(key[0]))
            return super().__getitem__(key)

    for name, value in of.observation.updates.items():
        of.observation.updates[name] = value.view(File)
    objective = Objective(of, terms("squares", ones, 0.0))
    objective.chunk(ADAM)
    assert set(asked) == {1}
    objective.evaluate(torch.tensor([7, 2, 3]))
    assert set(asked) == {1, 3}


@pytest.mark.parametrize(("total", "expected"), [(1 << 34, 9), (1, 1)])
def test_the_memory_of_a_gpu_decides_and_not_what_others_leave_free(
    total: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are part of the arithmetic, so a job beside must not change them."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: pytest.fail("free memory was asked for"))
    properties = SimpleNamespace(total_memory=total)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: properties)
    monkeypatch.setattr(module, "measured_bytes", lambda *_: 1000)
    objective = Objective(trials(count=9), terms("squares", ones, 0.0))
    unknowns: Any = SimpleNamespace(start={"images": torch.zeros(1, 2)}, through=lambda _: lambda _: None)
    monkeypatch.setattr(Group, "observed", lambda *_: {})
    monkeypatch.setattr(Group, "draw", lambda *_: {})
    monkeypatch.setattr(Group, "device", "cuda:0")
    assert objective.chunk(ADAM, unknowns) == expected
