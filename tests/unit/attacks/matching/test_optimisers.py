"""The batched optimisers, row by row, against torch's own with one parameter each, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from leakbench.attacks.matching.optimiser import Optimiser
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.attacks.matching.optimisers.rmsprop import RMSprop

Rows = Callable[[Tensor], Tensor]


def quadratic(x: Tensor) -> Tensor:
    """Return a bowl for each row, conditioned 1:2 … 1:n over the rows: [trials, n] → [trials]."""
    width = x.shape[-1]
    steep = torch.linspace(1, 2, width, dtype=x.dtype)
    return (steep * (x - 0.3).square()).sum(-1) / 2


def rosenbrock(x: Tensor) -> Tensor:
    """Return Rosenbrock's valley, scaled down so that steps without line search stay in it: [trials, n] →
    [trials]."""
    return ((1 - x[..., :-1]).square() + 100 * (x[..., 1:] - x[..., :-1].square()).square()).sum(-1) / 500


def batched(loss: Rows, calls: list[int] | None = None) -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
    """Return `loss` of the unknowns a and b side by side as the optimisers want it."""

    def evaluate(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        if calls is not None:
            calls.append(1)
        wanted = {name: value.detach().clone().requires_grad_() for name, value in unknowns.items()}
        losses = loss(torch.cat([value.flatten(1) for value in wanted.values()], 1))
        slopes = torch.autograd.grad(losses.sum(), list(wanted.values()))
        return losses.detach(), dict(zip(wanted, slopes, strict=True))

    return evaluate


def drawn(trials: int = 6, seed: int = 0) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    shape = {"a": (trials, 2, 3), "b": (trials, 4)}
    return {
        name: torch.randn(size, generator=rng, dtype=torch.float64) * 0.7 + 0.5
        for name, size in shape.items()
    }


def flat(unknowns: dict[str, Tensor], row: int) -> Tensor:
    return torch.cat([value[row].flatten() for value in unknowns.values()])


@pytest.mark.parametrize("memory", [100, 3])
@pytest.mark.parametrize(
    ("loss", "lr", "steps"), [(quadratic, 1.0, 4), (quadratic, 0.1, 6), (rosenbrock, 1.0, 2)]
)
def test_lbfgs_is_torchs_without_line_search_row_by_row(
    loss: Rows, lr: float, steps: int, memory: int
) -> None:
    unknowns, start = drawn(), drawn()
    ours = LBFGS(lr, memory, 20)
    seen = []
    for iteration in range(steps):
        losses = ours.step(unknowns, batched(loss), iteration)
        seen.append(
            (losses, {name: value.clone() for name, value in unknowns.items()}, ours.state["count"].clone())
        )
    for row in range(6):
        theirs = flat(start, row).clone().requires_grad_()
        optimiser = torch.optim.LBFGS([theirs], lr=lr, max_iter=20, history_size=memory)

        def closure(theirs: Tensor = theirs, optimiser: torch.optim.LBFGS = optimiser) -> Tensor:
            optimiser.zero_grad()
            value = loss(theirs)
            value.backward()
            return value

        for losses, after, count in seen:
            before = optimiser.step(closure)
            # The valley magnifies what rounding leaves.
            assert losses[row].item() == pytest.approx(before.item(), rel=1e-5, abs=1e-10)
            torch.testing.assert_close(flat(after, row), theirs.detach(), rtol=1e-5, atol=1e-6)
            assert int(count[row]) == optimiser.state[theirs]["n_iter"]


def test_lbfgs_reaches_the_bottom_and_rows_stop_apart() -> None:
    """A row that starts at its end is not moved and does not hold the others up."""
    unknowns = drawn()
    for value in unknowns.values():
        value[2] = 0.3
    ours = LBFGS(1.0, 100, 20)
    for iteration in range(5):
        ours.step(unknowns, batched(quadratic), iteration)
    for row in range(6):
        torch.testing.assert_close(
            flat(unknowns, row), torch.full((10,), 0.3, dtype=torch.float64), rtol=0, atol=1e-4
        )
    assert int(ours.state["count"][2]) == 0
    assert (ours.state["count"][[0, 1, 3, 4, 5]] > 2).all()


def test_lbfgs_takes_no_more_evaluations_than_its_inner_steps() -> None:
    calls: list[int] = []
    LBFGS(0.1, 100, 7).step(drawn(), batched(rosenbrock, calls), 0)
    assert len(calls) == 7


MAKE: dict[str, Callable[[], Optimiser]] = {
    "lbfgs": lambda: LBFGS(1.0, 5, 20),
    "adam": lambda: Adam(0.1, 8, False, True),
    "signed adam": lambda: Adam(0.1, 8, True, False),
    "rmsprop": lambda: RMSprop(0.01, 0.9),
}


@pytest.mark.parametrize("kind", MAKE)
def test_a_row_does_not_depend_on_the_others(kind: str) -> None:
    def optimise(rows: Tensor) -> dict[str, Tensor]:
        unknowns = {name: value[rows].clone() for name, value in drawn().items()}
        optimiser = MAKE[kind]()
        for iteration in range(8):
            optimiser.step(unknowns, batched(rosenbrock), iteration)
        return unknowns

    together = optimise(torch.arange(6))
    for row in range(6):
        alone = optimise(torch.tensor([row]))
        for name, value in alone.items():
            torch.testing.assert_close(value[0], together[name][row], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", MAKE)
def test_a_row_whose_loss_is_no_number_stays_where_it_is(kind: str) -> None:
    """State has the trials first, so that rows can leave."""

    def broken(x: Tensor) -> Tensor:
        return quadratic(x) * torch.where(torch.arange(len(x)) == 1, torch.nan, 1.0)

    unknowns, start = drawn(), drawn()
    optimiser = MAKE[kind]()
    for iteration in range(3):
        losses = optimiser.step(unknowns, batched(broken), iteration)
        assert losses.isnan().tolist() == [False, True, False, False, False, False]
    for name, value in unknowns.items():
        assert torch.equal(value[1], start[name][1])
        others = [0, 2, 3, 4, 5]
        assert (value[others] != start[name][others]).flatten(1).all()
        assert value.isfinite().all()
    assert optimiser.state
    assert all(value.shape[0] == 6 for value in optimiser.state.values())


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("decay", [False, True, 0.3])
def test_adam_is_torchs_with_invgs_habits_or_a_steady_decay(signed: bool, decay: bool | float) -> None:
    iterations = 40
    unknowns, start = drawn(), drawn()
    ours = Adam(0.05, iterations, signed, decay)
    theirs = [flat(start, row).clone().requires_grad_() for row in range(6)]
    optimisers = [torch.optim.Adam([x], lr=0.05) for x in theirs]
    # InvG: after iterations // 2.667, // 1.6 and // 1.142, a tenth.
    drops = [15, 25, 35] if decay is True else []
    schedules = [
        torch.optim.lr_scheduler.MultiStepLR(o, drops, 0.1)
        if isinstance(decay, bool)
        else torch.optim.lr_scheduler.ExponentialLR(o, decay ** (1 / iterations))
        for o in optimisers
    ]
    for iteration in range(iterations):
        losses = ours.step(unknowns, batched(rosenbrock), iteration)
        for row, (x, optimiser, schedule) in enumerate(zip(theirs, optimisers, schedules, strict=True)):
            optimiser.zero_grad()
            loss = rosenbrock(x)
            loss.backward()
            assert losses[row].item() == pytest.approx(loss.item(), rel=1e-9)
            if signed:
                x.grad.sign_()
            optimiser.step()
            schedule.step()
            torch.testing.assert_close(flat(unknowns, row), x.detach(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", MAKE)
def test_each_value_moves_by_its_own_derivative_whatever_their_order_of_memory(kind: str) -> None:
    """Behind convolutions, autograd leaves the channels of an image's derivative last in memory."""
    ends = []
    for order in (torch.contiguous_format, torch.channels_last):

        def evaluated(unknowns: dict[str, Tensor], order: Any = order) -> tuple[Tensor, dict[str, Tensor]]:
            images = unknowns["images"]
            slope = images * torch.arange(images[0].numel()).view_as(images[0])
            return (images * slope).flatten(1).sum(1), {"images": slope.contiguous(memory_format=order)}

        unknowns = {"images": torch.linspace(-1, 1, 2 * 3 * 4 * 5).view(2, 3, 4, 5)}
        optimiser = MAKE[kind]()
        for iteration in range(5):
            optimiser.step(unknowns, evaluated, iteration)
        ends.append(unknowns["images"])
    torch.testing.assert_close(*ends, rtol=0, atol=0)


@pytest.mark.parametrize("loss", [quadratic, rosenbrock])
def test_rmsprop_is_torchs_row_by_row(loss: Rows) -> None:
    unknowns, start = drawn(), drawn()
    ours = RMSprop(0.01, 0.9)
    for iteration in range(15):
        ours.step(unknowns, batched(loss), iteration)
    for row in range(6):
        theirs = flat(start, row).clone().requires_grad_()
        optimiser = torch.optim.RMSprop([theirs], lr=0.01, momentum=0.9)
        for _ in range(15):
            optimiser.zero_grad()
            loss(theirs[None]).sum().backward()
            optimiser.step()
        torch.testing.assert_close(flat(unknowns, row), theirs.detach(), rtol=1e-10, atol=1e-12)
