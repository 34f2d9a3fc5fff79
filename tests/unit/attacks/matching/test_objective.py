"""The whole loss of a trial: its derivative against finite differences, its parts, its memory."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, everything, group, network, ones, terms

from leakbench.attacks.matching import objective as module
from leakbench.attacks.matching.engines.frozen import FrozenDifference
from leakbench.attacks.matching.loop import measured_bytes
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.lbfgs import LBFGS
from leakbench.attacks.matching.parameterisation import AT_ONCE
from leakbench.attacks.matching.trials import Group

SHAPE = (8, 8, 2)
ADAM = Adam(0.1, 1, False, False)


def trials(known: bool = True, count: int = 2, batch: int = 2, **options: Any) -> Group:
    torch.manual_seed(3)
    model = network("lenet_dlg", {}, SHAPE)
    images = torch.rand(count, batch, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (count, batch)), known, **options)


def start(of: Group) -> dict[str, Tensor]:
    drawn = of.draw("normal", torch.Generator().manual_seed(4))
    return {name: value.double() for name, value in drawn.items()}


def test_rows_are_the_trials_that_are_asked_for() -> None:
    of = trials(count=4)
    unknowns, shares = start(of), torch.rand(4, dtype=torch.float64)

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
    unknowns = {name: value[:1].float() for name, value in start(few.group).items()}
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
