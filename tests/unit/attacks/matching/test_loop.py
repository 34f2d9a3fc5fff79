"""The loop: chunks and failures of some trials change nothing for the others."""

import math

import pytest
import torch
from loop_trials import TRIALS, bowls, counted, matched, nothing, same, start, steady
from torch import Tensor

from leakbench.attacks.matching.loop import DIVERGED, ENDED, RUNNING, Schedule, match, measured_bytes, traced


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
