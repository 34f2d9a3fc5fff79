"""What tests of the loop share: five trials with a known end, five on a network, equality to the bit."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from trial_networks import CLASSES, group, ones, terms

from leakbench.attacks.matching.loop import Outcome, Schedule, match
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimiser import Evaluate, Optimiser
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.base.processes.workers import Crew
from leakbench.networks import victims

TRIALS = 5


def nothing(unknowns: dict[str, Tensor]) -> None:
    pass


def bowls(lost: dict[int, int] | None = None, value: float = torch.nan) -> Callable[[Tensor], Evaluate]:
    """Return bowls, trial t's around t; `lost` maps a trial to the steps after which it is lost."""
    targets = torch.arange(TRIALS, dtype=torch.float64)

    def evaluate(rows: Tensor) -> Evaluate:
        def evaluated(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            away = unknowns["x"] - targets[rows][:, None]
            losses, moves = away.square().sum(1), 2 * away
            for trial, distance in (lost or {}).items():
                gone = (rows == trial) & (unknowns["x"] + 1).abs().amax(1).gt(distance / 10 - 0.01)
                losses, moves = torch.where(gone, value, losses), torch.where(gone[:, None], torch.nan, moves)
            return losses, {"x": moves}

        return evaluated

    return evaluate


def start() -> dict[str, Tensor]:
    return {"x": torch.full((TRIALS, 3), -1.0, dtype=torch.float64)}


def steady() -> Optimiser:
    """Return an optimiser that moves every coordinate by a tenth of one towards its end."""
    return Adam(0.1, 1000, True, False)


def matched(
    schedule: Schedule, chunk: int = TRIALS, evaluate: Callable[[Tensor], Evaluate] | None = None,
    project: Callable[[dict[str, Tensor]], None] = nothing, work: Crew | None = None, **more: Any,
) -> Outcome:  # fmt: skip
    """Return what becomes of five trials in bowls, by steady steps."""
    return match(start(), evaluate or bowls(), steady, project, schedule, chunk, work, **more)


def same(one: Outcome, two: Outcome) -> None:
    """Assert that two outcomes agree bit for bit."""
    for name, value in vars(one).items():
        other = getattr(two, name)
        pairs = [(value, other)] if isinstance(value, Tensor) else [(value[n], other[n]) for n in value]
        for left, right in pairs:
            assert left.dtype == right.dtype, name
            torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


def lenet(known: bool = False, dtype: torch.dtype = torch.float32) -> tuple[dict[str, Tensor], Objective]:
    """Return the unknowns and objective of five trials on DLG's LeNet."""
    torch.manual_seed(0)
    model = victims.build("lenet-dlg", (16, 16, 3), CLASSES, {}).to(dtype).eval()
    images = torch.rand(TRIALS, 1, 3, 16, 16, dtype=dtype)
    of = group(model, images, torch.randint(0, CLASSES, (TRIALS, 1)), known)
    drawn = of.draw("normal", torch.Generator().manual_seed(1))
    objective = Objective(of, terms("squares", ones, 0.01))
    return {name: value.to(dtype) for name, value in drawn.items()}, objective


def counted(
    evaluate: Callable[[Tensor], Evaluate], calls: list[int], after: int = 10**9, fault: type = Exception
) -> Callable[[Tensor], Evaluate]:
    """Return `evaluate` that notes the size of each of its calls, and raises a fault after some of them."""

    def made(rows: Tensor) -> Evaluate:
        inner = evaluate(rows)

        def evaluated(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            calls.append(len(rows))
            if len(calls) > after:
                raise fault
            return inner(unknowns)

        return evaluated

    return made
