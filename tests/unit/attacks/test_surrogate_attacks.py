"""Attacks that seek surrogate weights: what they gain, and what they cannot serve."""

from functools import partial
from typing import Any

import pytest
import torch
from matching_observations import QUICK, observe, photographs, run, small

from leakbench.errors import Unfit

PARTS = ("surrogate", "surrogate-curve")


@pytest.mark.parametrize("kind", PARTS)
def test_an_attack_on_many_local_steps_comes_nearer_than_one_batch(kind: str) -> None:
    local = {"lr": 0.2, "batch_size": 1, "epochs": 8}
    images, labels = photographs(2, 8)[None], torch.tensor([[4, 1]])
    seen = observe(images, labels, kind="model", local=local, victim="fedavg-cnn", parameters={"width": 8})
    plan = QUICK | {"iterations": 150, "optimiser": {"adam": {"lr": 0.1, "signed": True, "decay": True}}}
    one = run(seen, **plan)
    other = run(seen, **plan | {"unknowns": {kind: {"share": 0.1}}})
    assert one.losses is not None
    assert other.losses is not None
    assert other.losses[0, 0, -1] < 0.9 * one.losses[0, 0, -1]
    assert other.gap is not None
    assert torch.isfinite(other.gap).all()


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a gradient": ({}, {}, "sent a gradient"),
    "simulation": ({"kind": "model"}, {"updates": "simulated"}, "set updates: one-batch"),
    "evolution": ({"kind": "model"}, {"objective": "squares", "optimiser": "cma-es"}, "set optimiser: adam"),
    "bfloat16": ({"kind": "model"}, {"precision": "bfloat16"}, "precision: float32"),
    "joint epochs": ({"kind": "model"}, {"epochs": {"joint": {"steps": "joint"}}}, "set unknowns: dummies"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", PARTS)
def test_what_surrogate_weights_cannot_serve_is_refused_in_one_line(kind: str, case: str) -> None:
    options, changes, words = REFUSED[case]
    with pytest.raises(Unfit, match=words) as raised:
        run(small(victim="fedavg-cnn", **options), **QUICK | {"unknowns": kind} | changes)
    assert "\n" not in str(raised.value)


def test_differences_do_not_stand_for_derivatives_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep network asks for differences, which know nothing of moving weights: they are not used."""
    monkeypatch.setattr("leakbench.matching.composition.pays", lambda model, shape: True)
    seen = small(kind="model", local={"lr": 0.1, "batch_size": None, "epochs": 2})
    several = partial(run, seen, **QUICK | {"unknowns": "surrogate"})
    exact, frozen = several(derivative="exact"), several(derivative="frozen")
    assert torch.equal(exact.images, frozen.images)
