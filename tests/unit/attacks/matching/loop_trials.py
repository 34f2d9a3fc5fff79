"""What tests of the loop have in common: five trials with a known end, five on a network, and equality to the
bit."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from trial_networks import CLASSES, group, ones, terms

from leakbench.attacks.matching import loop
from leakbench.attacks.matching.loop import Outcome
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimiser import Evaluate, Optimiser
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.networks import victims

TRIALS = 5


def nothing(unknowns: dict[str, Tensor]) -> None:
    pass


def bowls(broken: dict[int, int] | None = None) -> Callable[[Tensor], Evaluate]:
    """Return bowls, trial t's around t; `broken` maps a trial to the distance from its start where the loss
    ends."""
    targets = torch.arange(TRIALS, dtype=torch.float64)

    def evaluate(rows: Tensor) -> Evaluate:
        def evaluated(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            away = unknowns["x"] - targets[rows][:, None]
            losses = away.square().sum(1)
            for trial, distance in (broken or {}).items():
                lost = (rows == trial) & (unknowns["x"] + 1).abs().amax(1).gt(distance / 10 - 0.01)
                losses = torch.where(lost, torch.nan, losses)
            return losses, {"x": 2 * away}

        return evaluated

    return evaluate


def start() -> dict[str, Tensor]:
    return {"x": torch.full((TRIALS, 3), -1.0, dtype=torch.float64)}


def steady() -> Optimiser:
    """Return an optimiser that moves every coordinate by a tenth of one towards its end."""
    return Adam(0.1, 1000, True, False)


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
    return {name: value.to(dtype) for name, value in drawn.items()}, Objective(
        of, terms("squares", ones, 0.01)
    )


class Killed(Exception):
    pass


def due_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "track", lambda items, label: ((item, True) for item in items))


def killing(
    evaluate: Callable[[Tensor], Evaluate], after: int
) -> tuple[Callable[[Tensor], Evaluate], list[int]]:
    """Return `evaluate` that raises Killed after `after` calls, and the list of its calls."""
    calls: list[int] = []

    def made(rows: Tensor) -> Evaluate:
        inner = evaluate(rows)

        def evaluated(unknowns: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            calls.append(len(rows))
            if len(calls) > after:
                raise Killed
            return inner(unknowns)

        return evaluated

    return made, calls
