"""A generator's latents as unknowns: what they are drawn as, what they make, and losses of many at once."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from trial_networks import CLASSES, group, terms

from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.trials import Group
from leakbench.attacks.matching.unknowns.latent import latent
from leakbench.base.errors import Unfit
from leakbench.networks import generators, victims

TRIALS, BATCH, LATENT = 3, 2, 5


def trials(steps: bool = False, generator: bool = True) -> Group:
    """Return three trials of two images each on DLG's LeNet, and the attacker's generator."""
    torch.manual_seed(0)
    model = victims.build("lenet-dlg", (16, 16, 3), CLASSES, {}).eval()
    of = group(model, torch.rand(TRIALS, BATCH, 3, 16, 16), torch.randint(0, CLASSES, (TRIALS, BATCH)), True)
    mine = generators.build("cvae", (CLASSES,), (16, 16, 3), {"latent": LATENT, "width": 4}).eval()
    of = replace(of, observation=replace(of.observation, generator=mine if generator else None))
    return replace(of, steps=[slice(0, 2)]) if steps else of


def drawn(of: Group, seed: int = 4) -> Any:
    return latent()(of, torch.Generator().manual_seed(seed))


def test_latents_start_uniform_trial_by_trial() -> None:
    of = trials()
    start = drawn(of).start["latents"]
    assert start.shape == (TRIALS, BATCH, LATENT)
    rng = torch.Generator().manual_seed(4)
    torch.testing.assert_close(start[0], torch.rand(BATCH, LATENT, generator=rng))
    torch.testing.assert_close(start[1], torch.rand(BATCH, LATENT, generator=rng))


def test_images_are_the_generators_of_the_tanh_and_the_trials_own_labels() -> None:
    of = trials()
    sought, rows = drawn(of), torch.tensor([2, 0])
    found = sought.dummies({"latents": sought.start["latents"][rows]}, rows)
    assert set(found) == {"images"}
    generator: Any = of.observation.generator
    assert of.labels is not None
    for place, trial in enumerate(rows.tolist()):
        images = generator(sought.start["latents"][trial].tanh(), of.labels[trial])
        torch.testing.assert_close(of.to_pixels(found["images"][place]), images)


@pytest.mark.parametrize("distance", ["squares", "cosine", "norm"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_members_are_those_of_the_differentiable_objective(distance: str, weighted: bool) -> None:
    of = trials()

    def weigh(model: object, observed: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            name: torch.full((len(value),), 1.0 + place)
            for place, (name, value) in enumerate(observed.items())
        }

    objective = Objective(of, terms(distance, weigh if weighted else None, 0.01))
    sought, rows = drawn(of), torch.tensor([0, 2])
    members = torch.rand(2, 7, BATCH, LATENT, generator=torch.Generator().manual_seed(1))
    # Four at a time: one pass holds members of both trials.
    losses, none = sought.members(objective.losses, 4)(rows)({"latents": members})
    assert losses.shape == (2, 7)
    assert none == {}
    for member in range(7):
        expected, _ = sought.through(objective.evaluate)(rows)({"latents": members[:, member]})
        torch.testing.assert_close(losses[:, member], expected.double(), rtol=1e-4, atol=1e-6)


def test_slopes_go_through_the_generator() -> None:
    of = trials()
    sought, rows = drawn(of), torch.arange(TRIALS)
    evaluate = sought.through(Objective(of, terms("squares", None, 0.0)).evaluate)(rows)
    start = sought.start["latents"]
    losses, slopes = evaluate({"latents": start})
    after, _ = evaluate({"latents": start - 0.02 * slopes["latents"] / slopes["latents"].norm()})
    assert (after < losses).all()


@pytest.mark.parametrize("missing", ["generator", "other generator", "labels"])
def test_what_is_missing_is_told_in_one_line(missing: str) -> None:
    of = trials(generator=missing != "generator")
    if missing == "other generator":
        features = generators.build("fidel-mnist", (32, 13, 13), (28, 28, 1), {})
        of = replace(of, observation=replace(of.observation, generator=features))
    if missing == "labels":
        of = replace(of, labels=None)
    with pytest.raises(
        Unfit, match="labels: counted" if missing == "labels" else "needs a generator"
    ) as told:
        drawn(of)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("what", ["wasserstein", "steps"])
def test_losses_without_gradients_refuse_what_needs_them(what: str) -> None:
    of = trials(steps=what == "steps")
    distance = "squares+wasserstein" if what == "wasserstein" else "squares"
    with pytest.raises(Unfit, match="cma-es takes"):
        Objective(of, terms(distance, None, 0.0)).losses(torch.arange(TRIALS))


def test_losses_tell_dummies_apart_that_hardly_change_the_gradient() -> None:
    """Products in float32 would leave nothing of a distance that is 1e-9 of them."""
    of = trials()
    objective, rows = Objective(of, terms("squares", None, 0.0)), torch.arange(1)
    assert of.labels is not None
    images = torch.rand(1, BATCH, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    own = of.caused(of.to_pixels(images).requires_grad_(), of.labels[:1], rows, {})
    near = replace(of, model=of.model)
    observed = {name: value.detach() for name, value in own.items()}
    object.__setattr__(near, "observed", lambda trials: observed)
    moved = torch.cat([images + 1e-4 * step for step in (1, 2, 3)])
    losses = Objective(near, terms("squares", None, 0.0)).losses(rows)(
        {"images": moved}, torch.zeros(3, dtype=torch.long)
    )
    expected, _ = objective.evaluate(rows)({"images": images})
    assert (losses > 0).all()
    assert losses[0] < 1e-6 * expected
    # Squares of a small change grow as its square.
    torch.testing.assert_close(
        losses / losses[0], torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64), rtol=0.05, atol=0
    )
