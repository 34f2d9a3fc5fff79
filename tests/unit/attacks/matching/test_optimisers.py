"""The batched optimisers, row by row, against torch's own with one parameter each, in float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, optim

from leakbench.attacks.matching.optimiser import Optimiser
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.attacks.matching.optimisers.rmsprop import RMSprop

Rows = Callable[[Tensor], Tensor]
STEPS = 40


def quadratic(x: Tensor) -> Tensor:
    """Return a bowl for each row, conditioned 1:2 … 1:n over the rows: [trials, n] → [trials]."""
    steep = torch.linspace(1, 2, x.shape[-1], dtype=x.dtype)
    return (steep * (x - 0.3).square()).sum(-1) / 2


def rosenbrock(x: Tensor) -> Tensor:
    """Return Rosenbrock's valley, scaled for steps without line search: [trials, n] → [trials]."""
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


def drawn() -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(0)
    shape = {"a": (6, 2, 3), "b": (6, 4)}
    return {n: torch.randn(size, generator=rng, dtype=torch.float64) * 0.7 + 0.5 for n, size in shape.items()}


def flat(unknowns: dict[str, Tensor], row: int) -> Tensor:
    return torch.cat([value[row].flatten() for value in unknowns.values()])


def lbfgs(lr: float, memory: int) -> tuple[Callable[[], Optimiser], Callable[..., Any], bool]:
    return (
        lambda: LBFGS(lr, memory, 20),
        lambda x: optim.LBFGS([x], lr=lr, max_iter=20, history_size=memory),
        False,
    )


def adam(signed: bool, decay: bool | float) -> tuple[Callable[[], Optimiser], Callable[..., Any], bool]:
    return lambda: Adam(0.05, STEPS, signed, decay), lambda x: optim.Adam([x], lr=0.05), signed


# Ours, torch's of one parameter, whether it moves by signs, the loss, the steps, and how torch's rate falls.
# InvG's falls after iterations // 2.667, // 1.6 and // 1.142, to a tenth.
CASES: dict[str, tuple[Any, Rows, int, Callable[..., Any] | None]] = {
    "lbfgs in a bowl": (lbfgs(1.0, 100), quadratic, 4, None),
    "short steps of lbfgs": (lbfgs(0.1, 3), quadratic, 6, None),
    "lbfgs in a valley": (lbfgs(1.0, 3), rosenbrock, 2, None),
    "adam": (adam(False, False), rosenbrock, STEPS, None),
    "signed adam": (
        adam(True, True), rosenbrock, STEPS, lambda o: optim.lr_scheduler.MultiStepLR(o, [15, 25, 35], 0.1),
    ),
    "decayed adam": (
        adam(False, 0.3), rosenbrock, STEPS,
        lambda o: optim.lr_scheduler.ExponentialLR(o, 0.3 ** (1 / STEPS)),
    ),
    "rmsprop": (
        (lambda: RMSprop(0.01, 0.9), lambda x: optim.RMSprop([x], lr=0.01, momentum=0.9), False),
        rosenbrock, 15, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_optimiser_is_torchs_row_by_row(case: str) -> None:
    (make, torchs, signed), loss, steps, falls = CASES[case]
    unknowns, start, ours = drawn(), drawn(), make()
    seen = []
    for iteration in range(steps):
        losses = ours.step(unknowns, batched(loss), iteration)
        seen.append((losses, {name: value.clone() for name, value in unknowns.items()}))
    for row in range(6):
        x = flat(start, row).clone().requires_grad_()
        optimiser = torchs(x)
        schedule = falls(optimiser) if falls else None

        def closure(x: Tensor = x, optimiser: Any = optimiser) -> Tensor:
            optimiser.zero_grad()
            value = loss(x)
            value.backward()
            if signed:
                x.grad.sign_()
            return value

        for losses, after in seen:
            before = optimiser.step(closure)
            if schedule:
                schedule.step()
            # The valley magnifies what rounding leaves.
            assert losses[row].item() == pytest.approx(before.item(), rel=1e-5, abs=1e-10)
            torch.testing.assert_close(flat(after, row), x.detach(), rtol=1e-5, atol=1e-6)
        if "lbfgs" in case:
            assert int(ours.state["count"][row]) == optimiser.state[x]["n_iter"]


def test_lbfgs_reaches_the_bottom_and_rows_stop_apart() -> None:
    """A row that starts at its end is not moved and does not hold the others up."""
    unknowns = drawn()
    for value in unknowns.values():
        value[2] = 0.3
    ours = LBFGS(1.0, 100, 20)
    for iteration in range(5):
        ours.step(unknowns, batched(quadratic), iteration)
    for value in unknowns.values():
        assert (value - 0.3).abs().max() < 1e-4
    assert int(ours.state["count"][2]) == 0
    assert (ours.state["count"][[0, 1, 3, 4, 5]] > 2).all()


def test_lbfgs_takes_no_more_evaluations_than_its_inner_steps() -> None:
    calls: list[int] = []
    LBFGS(0.1, 100, 7).step(drawn(), batched(rosenbrock, calls), 0)
    assert len(calls) == 7


MAKE: dict[str, Callable[[], Optimiser]] = {
    "lbfgs": lambda: LBFGS(1.0, 5, 20),
    "adam": lambda: Adam(0.1, 8, False, True),
    "rmsprop": lambda: RMSprop(0.01, 0.9),
}


@pytest.mark.parametrize("kind", MAKE)
def test_a_row_whose_loss_is_no_number_stays_where_it_is(kind: str) -> None:
    """State has the trials first, so that rows can leave."""

    def broken(x: Tensor) -> Tensor:
        return quadratic(x) * torch.where(torch.arange(len(x)) == 1, torch.nan, 1.0)

    unknowns, start, optimiser, others = drawn(), drawn(), MAKE[kind](), [0, 2, 3, 4, 5]
    for iteration in range(3):
        losses = optimiser.step(unknowns, batched(broken), iteration)
        assert losses.isnan().nonzero().tolist() == [[1]]
    for name, value in unknowns.items():
        assert torch.equal(value[1], start[name][1])
        assert (value[others] != start[name][others]).all()
        assert value.isfinite().all()
    assert optimiser.state
    assert all(value.shape[0] == 6 for value in optimiser.state.values())


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
