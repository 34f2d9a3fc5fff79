"""Generators as unknowns: latents, and GRNN's weights for many trials at once."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, group, network, terms

from leakbench.attacks.matching.generator_weights import GeneratorWeights
from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.optimiser import Optimiser
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.rmsprop import RMSprop
from leakbench.attacks.matching.trials import Group
from leakbench.attacks.matching.unknowns.generator import generator
from leakbench.attacks.matching.unknowns.latent import latent
from leakbench.base.errors import Unfit
from leakbench.networks import generators, victims

TRIALS, BATCH, LATENT = 3, 2, 5


def trials() -> Group:
    """Return three trials of two images each on DLG's LeNet, and the attacker's generator."""
    torch.manual_seed(0)
    model = victims.build("lenet-dlg", (16, 16, 3), CLASSES, {}).eval()
    of = group(model, torch.rand(TRIALS, BATCH, 3, 16, 16), torch.randint(0, CLASSES, (TRIALS, BATCH)), True)
    mine = generators.build("cvae", (CLASSES,), (16, 16, 3), {"latent": LATENT, "width": 4}).eval()
    return replace(of, observation=replace(of.observation, generator=mine))


def drawn(of: Group, seed: int = 4) -> Any:
    return latent()(of, torch.Generator().manual_seed(seed))


def test_images_are_the_generators_of_the_tanh_and_the_trials_own_labels() -> None:
    of = trials()
    sought, rows = drawn(of), torch.tensor([2, 0])
    # Uniform, trial by trial.
    own = torch.rand(TRIALS, BATCH, LATENT, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(sought.start["latents"], own)
    found = sought.dummies({"latents": sought.start["latents"][rows]}, rows)
    assert set(found) == {"images"}
    generator: Any = of.observation.generator
    for place, trial in enumerate(rows.tolist()):
        images = generator(sought.start["latents"][trial].tanh(), of.labels[trial])
        torch.testing.assert_close(of.to_pixels(found["images"][place]), images)


@pytest.mark.parametrize(("distance", "weighted"), [("squares", True), ("cosine", False), ("norm", False)])
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


FEATURES = generators.build("fidel-mnist", (32, 13, 13), (28, 28, 1), {})


@pytest.mark.parametrize(
    ("own", "labels", "says"),
    [(None, True, "needs a generator"), (FEATURES, True, "needs a generator"),
     (..., False, "labels: counted")],
)  # fmt: skip
def test_what_is_missing_is_told_in_one_line(own: Any, labels: bool, says: str) -> None:
    of = trials()
    of = of if own is ... else replace(of, observation=replace(of.observation, generator=own))
    with pytest.raises(Unfit, match=says):
        drawn(of if labels else replace(of, labels=None))


def test_losses_tell_dummies_apart_that_hardly_change_the_gradient() -> None:
    """Products in float32 would leave nothing of a distance that is 1e-9 of them."""
    of = trials()
    objective, rows = Objective(of, terms("squares", None, 0.0)), torch.arange(1)
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


Tensors = dict[str, Tensor]


def drawn_weights(trials: int = 2, **parameters: Any) -> tuple[GeneratorWeights, Tensors, Tensor]:
    made = GeneratorWeights(
        **({"resolution": 32, "channels": 3, "batch": 1, "classes": CLASSES} | parameters)
    )
    start, latents = made.draw(torch.Generator().manual_seed(0), trials)
    return made, {name: value.double() for name, value in start.items()}, latents.double()


class Gate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.glu(x, 1)


def layers(made: GeneratorWeights) -> tuple[nn.Sequential, nn.Linear]:
    """Return both branches in torch's layers, as the authors' code builds them, initialised by torch."""
    first = made.blocks[0][0]
    image: list[nn.Module] = [nn.ConvTranspose2d(made.latent, 2 * first, 4), Gate()]
    for channels, out in made.blocks:
        image += [nn.Upsample(scale_factor=2), nn.Conv2d(channels, 2 * out, 3, 1, 1, bias=False)]
        image += [nn.BatchNorm2d(2 * out), Gate()]
    return nn.Sequential(*image, nn.Sigmoid()).double(), nn.Linear(made.latent, made.classes).double()


def filled(made: GeneratorWeights, unknowns: Tensors, trial: int) -> tuple[nn.Sequential, nn.Linear]:
    """Return torch's layers with the weights of one trial (not collapsed)."""
    image, label = layers(made)
    own = {name: value[trial] for name, value in unknowns.items()}
    first = image[0]
    first.weight.data = own["seed.weight"].view(made.latent, 4, 4, -1).permute(0, 3, 1, 2)
    first.bias.data = own["seed.bias"]
    convolutions = [layer for layer in image if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in image if isinstance(layer, nn.BatchNorm2d)]
    for number, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
        convolution.weight.data = own[f"block{number}.weight"].permute(3, 0, 1, 2)
        norm.weight.data, norm.bias.data = own[f"block{number}.scale"], own[f"block{number}.shift"]
    label.weight.data, label.bias.data = own["label.weight"].T, own["label.bias"]
    return image, label


@pytest.mark.parametrize(("resolution", "batch", "channels"), [(32, 3, 3), (64, 1, 1), (8, 2, 3)])
def test_images_and_labels_are_those_of_torchs_layers(resolution: int, batch: int, channels: int) -> None:
    made, unknowns, latents = drawn_weights(
        resolution=resolution, batch=batch, channels=channels, collapsed=False, width=4
    )
    images, labels = made.images(unknowns, latents), made.labels(unknowns, latents)
    assert images.shape == (2, batch, channels, resolution, resolution)
    assert labels.shape == (2, batch, CLASSES)
    for trial in range(2):
        image, label = filled(made, unknowns, trial)
        torch.testing.assert_close(images[trial], image(latents[trial][:, :, None, None]))
        torch.testing.assert_close(labels[trial], label(latents[trial]))


def test_first_weights_have_the_bounds_of_torchs_own() -> None:
    made, unknowns, _ = drawn_weights(trials=1, batch=2)
    image, label = layers(made)
    theirs = {"seed.weight": image[0].weight, "seed.bias": image[0].bias, "label.weight": label.weight}
    theirs |= {f"block{n}.weight": image[3 + 4 * n].weight for n in range(3)}
    for name, expected in theirs.items():
        assert unknowns[name][0].numel() == expected.numel(), name
        assert float(unknowns[name].abs().max()) == pytest.approx(
            float(expected.detach().abs().max()), rel=0.05
        ), name
    assert sum(value[0].numel() for value in unknowns.values()) == sum(
        p.numel() for part in (image, label) for p in part.parameters()
    )


@pytest.mark.parametrize("make", [lambda: RMSprop(1e-3, 0.9), lambda: Adam(1e-3, 20, False, False)])
def test_a_single_latents_first_layers_move_as_their_product_does(make: Callable[[], Optimiser]) -> None:
    """The same generator with all its weights and collapsed, fitted to the same images and labels."""
    whole, collapsed = (drawn_weights(collapsed=c)[0] for c in (False, True))
    torch.manual_seed(3)
    target = torch.rand(2, 1, 3, 32, 32).double()

    def run(made: GeneratorWeights) -> tuple[Tensor, Tensor]:
        start, latents = made.draw(torch.Generator().manual_seed(5), 2)
        unknowns, latents = {name: value.double() for name, value in start.items()}, latents.double()
        optimiser = make()

        def evaluate(unknowns: Tensors) -> tuple[Tensor, Tensors]:
            wanted = {name: value.detach().requires_grad_() for name, value in unknowns.items()}
            images, labels = made.images(wanted, latents), made.labels(wanted, latents)
            losses = (images - target).square().flatten(1).sum(1) + labels.log_softmax(2)[:, 0, 3].neg()
            # Large gradients, beside which the optimiser's epsilon is nothing.
            losses = losses * 1e6
            slopes = torch.autograd.grad(losses.sum(), list(wanted.values()))
            return losses.detach(), dict(zip(wanted, slopes, strict=True))

        for iteration in range(12):
            optimiser.step(unknowns, evaluate, iteration)
        return made.images(unknowns, latents), made.labels(unknowns, latents)

    before = whole.images(*drawn_weights(collapsed=False)[1:])
    for one, other in zip(run(whole), run(collapsed), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert float((run(whole)[0] - before).abs().max()) > 0.1


def test_a_trials_generator_does_not_depend_on_how_many_follow() -> None:
    for batch in (1, 2):
        one, many = drawn_weights(trials=1, batch=batch), drawn_weights(trials=3, batch=batch)
        assert torch.equal(one[2][0], many[2][0])
        assert all(torch.equal(value[0], many[1][name][0]) for name, value in one[1].items())


@pytest.mark.parametrize("shape", [(28, 28, 3), (32, 16, 3), (4, 4, 3)])
def test_images_that_no_generator_makes_are_refused_in_one_line(shape: tuple[int, int, int]) -> None:
    model = network("fcnn", {"width": 4}, shape)
    rows, columns, channels = shape
    trials = group(model, torch.rand(1, 1, channels, rows, columns).double(), torch.tensor([[3]]))
    with pytest.raises(Unfit, match=f"attack: unknowns: .* {rows}×{columns} .*mnist-32"):
        generator()(trials, torch.Generator())


def test_a_generator_may_read_a_latent_of_another_length() -> None:
    model = network("fcnn", {"width": 4}, (8, 8, 3))
    trials = group(model, torch.rand(1, 2, 3, 8, 8).double(), torch.tensor([[3, 4]]))
    unknowns = generator(latent=5)(trials, torch.Generator())
    assert unknowns.start["seed.weight"].shape[1] == 5
    assert unknowns.dummies(unknowns.start, torch.tensor([0]))["images"].shape == (1, 2, 3, 8, 8)
