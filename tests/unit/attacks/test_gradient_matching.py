"""The gradient-matching attacks: what they recover, and what they do not look at."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matching_observations import (
    EQUAL,
    QUICK,
    configured,
    observe,
    photographs,
    psnr,
    run,
    small,
)
from nightly import daily
from torch import Tensor

from leakbench.attacks.matching import composition, objective, trials
from leakbench.attacks.matching.engines.frozen import FrozenDifference, pays
from leakbench.attacks.matching.local_epochs import Taken
from leakbench.attacks.matching.loop import Schedule, match
from leakbench.attacks.matching.objectives.cosine import cosine
from leakbench.attacks.matching.optimisers.adam import adam
from leakbench.attacks.matching.trials import groups
from leakbench.networks import victims

FALLING = QUICK | {"optimiser": {"adam": {"lr": 0.1, "signed": True, "decay": True}}}


@pytest.mark.parametrize(
    ("name", "labelling"), [pytest.param("dlg", "joint", marks=pytest.mark.nightly), ("idlg", "idlg")]
)
def test_a_single_image_is_recovered_above_30_db(name: str, labelling: Any) -> None:
    images, labels = photographs(2, 16)[1:, None], torch.tensor([[1]])
    observation = replace(observe(images, labels), labelling=labelling, labels=None)
    found = run(observation, **configured(name) | {"iterations": 40})
    assert found.images.shape == (1, 1, 1, 3, 16, 16)
    assert found.labels.item() == 1
    assert psnr(found.images[:, 0, 0], images[:, 0])[0] > 30


@pytest.mark.parametrize("precision", daily(["float32", "bfloat16"], ["float32"]))
def test_adam_with_cosine_recovers_a_small_image(precision: str) -> None:
    images = photographs(2, 8)[:, None]
    observation = observe(images, torch.tensor([[1], [2]]))
    start, end = (run(observation, **FALLING | {"iterations": n, "precision": precision}) for n in (1, 400))
    for before, after in zip(
        psnr(start.images[:, 0, 0], images[:, 0]), psnr(end.images[:, 0, 0], images[:, 0]), strict=True
    ):
        assert after > before + 10


def approximated_or_simulated() -> None:
    """Assert that at a small learning rate four steps on one image each are nearly one step on the batch of
    four, and that at a large one they are not."""
    images, labels = photographs(4, 8)[None], torch.tensor([[4, 1, 7, 2]])
    apart = []
    for lr, iterations in ((1e-3, 60), (0.5, 1)):
        local = {"lr": lr, "batch_size": 1, "epochs": 1}
        observation = observe(images, labels, kind="model", local=local)
        losses = []
        for updates in ("one-batch", "simulated"):
            found = run(observation, **FALLING | {"updates": updates, "iterations": iterations})
            assert iterations == 1 or found.losses[0, 0, -1] < 0.1 * found.losses[0, 0, 0]
            losses.append(float(found.losses[0, 0, 0]))
        apart.append(abs(losses[0] - losses[1]))
    assert apart[0] < 1e-3
    assert apart[1] > 3e-3


def test_several_local_steps_are_approximated_or_simulated() -> None:
    approximated_or_simulated()


def test_a_reading_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above: every update is read as one batch."""
    monkeypatch.setattr(trials, "taken_for", lambda *given: Taken([]))
    with pytest.raises(AssertionError):
        approximated_or_simulated()


def test_of_several_starts_the_one_with_the_lowest_loss_is_kept() -> None:
    observation = small()
    several = run(observation, restarts=3, **QUICK)
    assert several.images.shape[:3] == (2, 1, 1)
    rng = torch.Generator().manual_seed(0)
    (group,) = groups(observation, restarts=3)
    outcome = match(
        group.draw("normal", rng),
        objective.Objective(group, [cosine(), EQUAL]).evaluate,
        lambda: adam(lr=0.1, signed=True)(4),
        group.clip,
        Schedule(4, 0.0),
        6,
    )
    best = outcome.final.view(2, 3).argmin(1) + torch.tensor([0, 3])
    expected = group.to_pixels(outcome.unknowns["images"][best]).clamp(0, 1)
    torch.testing.assert_close(several.images[:, 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labelling", ["oracle", "counted", "joint"])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(labelling: Any) -> None:
    observation = replace(small(), labelling=labelling)
    one, same, other = (run(observation, seed, **QUICK) for seed in (0, 0, 1))
    for name, value in one.tensors().items():
        assert torch.equal(torch.nan_to_num(value.double()), torch.nan_to_num(same.tensors()[name].double()))
    assert not torch.equal(one.images, other.images)


def test_a_round_does_not_depend_on_the_rounds_after_it() -> None:
    """Starts are drawn one after another, and trials do not mix."""
    whole, first = (run(small(rounds=n), **QUICK) for n in (3, 1))
    torch.testing.assert_close(whole.images[:1], first.images, rtol=0, atol=1e-5)


def test_the_attack_sees_labels_only_where_it_is_given_them() -> None:
    observation = small(k=2)
    wrong = [np.full((2, 2), 9)]
    for labelling, differs in (("oracle", True), ("counted", False), ("joint", False)):
        told = run(replace(observation, labelling=labelling), **QUICK)
        lied = run(replace(observation, labelling=labelling, labels=wrong), **QUICK)
        assert torch.equal(told.images, lied.images) is not differs


def test_snapshots_trace_and_status_are_told() -> None:
    found = run(small(rounds=3), **QUICK | {"iterations": 9, "snapshots": 2})
    assert found.snapshot_iterations.tolist() == [3, 6]
    assert found.snapshots.shape == (2, *found.images.shape)
    assert not torch.equal(found.snapshots[0], found.snapshots[1])
    assert found.losses.shape == (3, 1, 9)
    assert found.traced.tolist() == list(range(9))
    assert (found.losses[:, :, -1] < found.losses[:, :, 0]).all()
    assert not found.diverged.any()
    assert found.usable.all()
    assert found.iterations == 9


def test_an_update_that_diverges_is_marked_and_the_others_go_on() -> None:
    observation = small(rounds=3)
    # No gradient at all has no direction, so its cosine is no number.
    for value in observation.updates.values():
        value[1] = 0
    found = run(observation, **QUICK)
    assert found.diverged[:, 0].tolist() == [False, True, False]
    assert found.images.isfinite().all()
    sound = run(small(rounds=3), **QUICK)
    torch.testing.assert_close(found.images[[0, 2]], sound.images[[0, 2]], rtol=0, atol=1e-4)


def test_clients_of_different_sizes_and_models_fill_their_own_places() -> None:
    observation = small(rounds=4, k=1)
    two = small(rounds=4, k=3)
    both = replace(
        observation,
        weights={n: np.concatenate([v, 0.5 * v]) for n, v in observation.weights.items()},
        updates={n: np.concatenate([v, two.updates[n]], 1) for n, v in observation.updates.items()},
        origin=np.array([0, 0, 1, 1]),
        clients=[1, 3],
        labels=[*(observation.labels or []), *(two.labels or [])],
    )
    found = run(both, **QUICK)
    assert found.images.shape[:3] == (4, 2, 3)
    assert found.usable[:, 0].tolist() == [[True, False, False]] * 4
    assert found.usable[:, 1].all()
    assert found.labels[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert found.labels[:, 0, 1:].eq(-1).all()
    assert not found.images[:, 0, 1:].any()
    assert found.losses.isfinite().all()


def frozen_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that differences are taken where they are asked for, and lead where exact derivatives do."""
    taken: list[Any] = []
    whole = FrozenDifference.__call__
    monkeypatch.setattr(
        FrozenDifference, "__call__", lambda self, unknowns: (taken.append(self), whole(self, unknowns))[1]
    )
    images, labels = photographs(1, 32)[:, None], torch.tensor([[4]])
    observation = observe(images, labels, "resnet20-4", {"width": 8, "normalise": "cifar10"})
    exact = run(observation, **QUICK | {"iterations": 6, "derivative": "exact"})
    assert not taken
    frozen = run(observation, **QUICK | {"iterations": 6, "derivative": "frozen"})
    assert len(taken) >= 6
    torch.testing.assert_close(frozen.losses, exact.losses, rtol=0.1, atol=0.02)


def test_frozen_derivatives_lead_where_exact_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen_leads(monkeypatch)


def test_an_engine_that_is_never_used_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test above."""
    monkeypatch.setattr(composition, "pays", lambda *given: False)
    with pytest.raises(AssertionError):
        frozen_leads(monkeypatch)


def test_shallow_networks_have_exact_derivatives_whatever_is_asked() -> None:
    exact, asked = (run(small(), **QUICK | {"derivative": d}) for d in ("exact", "frozen"))
    assert torch.equal(exact.images, asked.images)
    deep, narrow = (victims.build(name, (32, 32, 3), 10, {"width": 4}) for name in ("resnet20-4", "convnet"))
    shape = torch.Size([1, 3, 32, 32])
    assert pays(deep.eval(), shape)
    assert not pays(narrow.eval(), shape)


def test_the_first_steps_of_a_longer_run_are_its_own() -> None:
    values = FALLING
    whole = run(small(), **values | {"iterations": 8, "snapshots": 1})
    assert whole.snapshot_iterations.tolist() == [4]
    first = run(small(), **values | {"iterations": 4, "decay_over": 8})
    shorter = run(small(), **values | {"iterations": 4})
    assert torch.equal(first.images, whole.snapshots[0])
    assert not torch.equal(shorter.images, first.images)


def test_a_chunk_keeps_no_more_memory_however_many_trials_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks: dict[int, int] = {}
    largest: dict[int, int] = {}
    monkeypatch.setattr(objective, "WORKING_BYTES", 300_000)
    for rounds in (8, 16):

        def counted(start: Any, evaluate: Callable[[Tensor], Any], *rest: Any, rounds: int = rounds) -> Any:
            def made(rows: Tensor) -> Any:
                inner = evaluate(rows)

                def evaluated(unknowns: dict[str, Tensor]) -> Any:
                    used = objective.measured_bytes(inner, unknowns)
                    largest[rounds] = max(largest.get(rounds, 0), used)
                    return inner(unknowns)

                return evaluated

            chunks[rounds] = rest[3]
            return match(start, made, *rest)

        monkeypatch.setattr(composition, "match", counted)
        run(small(rounds=rounds), **QUICK | {"iterations": 2})
    assert 1 <= chunks[8] == chunks[16] < 8
    assert largest[8] == largest[16] <= 300_000
