"""Gradient matching and GGL: what they recover, and what they do not look at."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from matching_observations import EQUAL, QUICK, configured, entry, observe, photographs, psnr, run, small

from leakbench import attacks
from leakbench.attacks.matching import objective
from leakbench.attacks.matching.loop import Schedule, match
from leakbench.attacks.matching.objectives.cosine import cosine
from leakbench.attacks.matching.optimisers.adam import adam
from leakbench.attacks.matching.trials import groups
from leakbench.base.errors import Unfit
from leakbench.networks import generators
from leakbench.observations.observation import Observation

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


def test_of_several_starts_the_one_with_the_lowest_loss_is_kept() -> None:
    observation = small()
    several = run(observation, restarts=3, **QUICK)
    assert several.images.shape[:3] == (2, 1, 1)
    (group,) = groups(observation, restarts=3)
    outcome = match(
        group.draw("normal", torch.Generator().manual_seed(0)),
        objective.Objective(group, [cosine(), EQUAL]).evaluate, lambda: adam(lr=0.1, signed=True)(4),
        group.clip, Schedule(4, 0.0), 6,
    )  # fmt: skip
    best = outcome.final.view(2, 3).argmin(1) + torch.tensor([0, 3])
    expected = group.to_pixels(outcome.unknowns["images"][best]).clamp(0, 1)
    torch.testing.assert_close(several.images[:, 0], expected, rtol=1e-4, atol=1e-5)


def test_the_attack_sees_labels_only_where_it_is_given_them() -> None:
    observation = small(k=2)
    wrong = [np.full((2, 2), 9)]
    for labelling, differs in (("oracle", True), ("counted", False), ("joint", False)):
        told = run(replace(observation, labelling=labelling), **QUICK)
        lied = run(replace(observation, labelling=labelling, labels=wrong), **QUICK)
        assert torch.equal(told.images, lied.images) is not differs


def test_snapshots_trace_and_status_are_told_and_an_update_that_diverges_disturbs_no_other() -> None:
    observation, values = small(rounds=3), QUICK | {"iterations": 9, "snapshots": 2}
    sound = run(observation, **values)
    # No gradient at all has no direction, so its cosine is no number.
    for value in observation.updates.values():
        value[1] = 0
    found = run(observation, **values)
    assert found.snapshot_iterations.tolist() == [3, 6]
    assert found.snapshots.shape == (2, *found.images.shape)
    assert not torch.equal(found.snapshots[0], found.snapshots[1])
    assert found.losses.shape == (3, 1, 9)
    assert found.traced.tolist() == list(range(9))
    assert found.diverged[:, 0].tolist() == [False, True, False]
    assert (found.losses[[0, 2], :, -1] < found.losses[[0, 2], :, 0]).all()
    assert found.iterations == 9
    torch.testing.assert_close(found.images[[0, 2]], sound.images[[0, 2]], rtol=0, atol=1e-4)


def test_clients_of_different_sizes_and_models_fill_their_own_places() -> None:
    observation, two = small(rounds=4, k=1), small(rounds=4, k=3)
    both = replace(
        observation, weights={n: np.concatenate([v, 0.5 * v]) for n, v in observation.weights.items()},
        updates={n: np.concatenate([v, two.updates[n]], 1) for n, v in observation.updates.items()},
        origin=np.array([0, 0, 1, 1]), clients=[1, 3],
        labels=[*(observation.labels or []), *(two.labels or [])],
    )  # fmt: skip
    found = run(both, **QUICK)
    assert found.images.shape[:3] == (4, 2, 3)
    assert found.usable[:, 0].tolist() == [[True, False, False]] * 4
    assert found.usable[:, 1].all()
    assert found.labels[:, 0, 0].tolist() == [0, 1, 2, 3]
    assert found.labels[:, 0, 1:].eq(-1).all()
    assert not found.images[:, 0, 1:].any()
    assert found.losses.isfinite().all()


def test_the_first_steps_of_a_longer_run_are_its_own() -> None:
    whole = run(small(), **FALLING | {"iterations": 8, "snapshots": 1})
    assert whole.snapshot_iterations.tolist() == [4]
    first = run(small(), **FALLING | {"iterations": 4, "decay_over": 8})
    assert torch.equal(first.images, whole.snapshots[0])
    assert not torch.equal(run(small(), **FALLING | {"iterations": 4}).images, first.images)


LATENT = 4

FEW = {"optimiser": {"cma-es": {"population": 16}}}


def generator() -> Any:
    """Return a generator of four latents whose images differ from latent to latent and from class to
    class."""
    torch.manual_seed(2)
    model = generators.build("cvae", (10,), (16, 16, 3), {"latent": LATENT, "width": 4})
    for parameter in model.parameters():
        parameter.data *= 3
    return model.eval()


def seen(labelling: str = "idlg") -> tuple[Observation, torch.Tensor]:
    """Return an observation of three images of the generator's own, and them."""
    mine, labels = generator(), torch.tensor([3, 1, 7])
    with torch.no_grad():
        images = mine(torch.rand(3, LATENT, generator=torch.Generator().manual_seed(5)) * 1.6 - 0.8, labels)
    observation = observe(images[:, None], labels[:, None])
    return replace(observation, labelling=labelling, labels=None, generator=mine), images


def run_as(observation: Observation, module: str = "gradient-matching", **parameters: Any) -> Any:
    made = entry(module=module, **parameters)
    return attacks.run(made, observation, torch.Generator().manual_seed(0))


def test_an_image_of_the_generators_own_is_found_again_and_none_in_noise() -> None:
    observation, images = seen()
    values = configured("ggl") | FEW | {"iterations": 45}
    found = run_as(observation, **values)
    assert found.labels.flatten().tolist() == [3, 1, 7]
    assert found.iterations == 45
    assert not found.diverged.any()
    reached = sorted(psnr(found.images[:, 0, 0], images))
    # One of the three may end in a valley of its own.
    assert reached[1] > 40
    noise = run_as(observation.randomised(3, torch.Generator().manual_seed(1)), **values)
    assert max(psnr(noise.images[:, 0, 0], images)) < reached[1] - 20


def test_the_class_mean_looks_at_the_label_alone() -> None:
    observation, _ = seen()
    found = run_as(observation, "class-mean", samples=50)
    assert found.labels.flatten().tolist() == [3, 1, 7]
    assert found.usable.all()
    rng = torch.Generator().manual_seed(0)
    latents = torch.randn(50, LATENT, generator=rng) / 2
    with torch.no_grad():
        expected = generator()(latents, torch.full((50,), 7)).mean(0)
    torch.testing.assert_close(found.images[2, 0, 0], expected)
    # Another gradient of the same signs in the last layer's bias gives the same image.
    for name, value in observation.updates.items():
        if name != "dense.bias":
            value[:] = value[:, :, ...] * 0.5
    assert torch.equal(run_as(observation, "class-mean", samples=50).images, found.images)


def test_neither_goes_without_a_generator_of_classes() -> None:
    observation, _ = seen()
    for module, values in (("class-mean", {}), ("gradient-matching", configured("ggl"))):
        with pytest.raises(Unfit, match="needs a generator"):
            run_as(replace(observation, generator=None), module, **values)
        with pytest.raises(Unfit, match="needs classes"):
            run_as(replace(observation, labelling="joint"), module, **values)
