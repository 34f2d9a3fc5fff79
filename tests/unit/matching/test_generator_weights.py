"""GRNN's generator for many trials at once, against the same network in torch's own layers, one trial after
another."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from trial_networks import CLASSES, group, network

from leakbench.attacks.matching.generator_weights import GeneratorWeights
from leakbench.attacks.matching.optimiser import Optimiser
from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.attacks.matching.optimisers.rmsprop import RMSprop
from leakbench.attacks.matching.unknowns.generator import generator
from leakbench.base.errors import Unfit

Tensors = dict[str, Tensor]


def drawn(trials: int = 2, **parameters: Any) -> tuple[GeneratorWeights, Tensors, Tensor]:
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
    assert isinstance(first, nn.ConvTranspose2d)
    assert first.bias is not None
    first.weight.data = own["seed.weight"].view(made.latent, 4, 4, -1).permute(0, 3, 1, 2)
    first.bias.data = own["seed.bias"]
    convolutions = [layer for layer in image if isinstance(layer, nn.Conv2d)]
    norms = [layer for layer in image if isinstance(layer, nn.BatchNorm2d)]
    for number, (convolution, norm) in enumerate(zip(convolutions, norms, strict=True)):
        convolution.weight.data = own[f"block{number}.weight"].permute(3, 0, 1, 2)
        norm.weight.data, norm.bias.data = own[f"block{number}.scale"], own[f"block{number}.shift"]
    label.weight.data, label.bias.data = own["label.weight"].T, own["label.bias"]
    return image, label


@pytest.mark.parametrize(("resolution", "batch", "channels"), [(32, 1, 3), (32, 3, 3), (64, 2, 1), (8, 2, 3)])
def test_images_and_labels_are_those_of_torchs_layers(resolution: int, batch: int, channels: int) -> None:
    made, unknowns, latents = drawn(
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
    made, unknowns, _ = drawn(trials=1, batch=2)
    image, label = layers(made)
    theirs = {"seed.weight": image[0].weight, "seed.bias": image[0].bias, "label.weight": label.weight}
    theirs |= {f"block{n}.weight": image[3 + 4 * n].weight for n in range(3)}
    for name, expected in theirs.items():
        assert isinstance(expected, Tensor)
        assert unknowns[name][0].numel() == expected.numel(), name
        assert float(unknowns[name].abs().max()) == pytest.approx(
            float(expected.detach().abs().max()), rel=0.05
        ), name
    assert sum(value[0].numel() for value in unknowns.values()) == sum(
        p.numel() for part in (image, label) for p in part.parameters()
    )


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_a_single_latents_first_layers_move_as_their_product_does(kind: str) -> None:
    """The same generator with all its weights and collapsed, fitted to the same images and labels."""
    whole, collapsed = (drawn(collapsed=c)[0] for c in (False, True))
    torch.manual_seed(3)
    target = torch.rand(2, 1, 3, 32, 32).double()

    def run(made: GeneratorWeights) -> tuple[Tensor, Tensor]:
        start, latents = made.draw(torch.Generator().manual_seed(5), 2)
        unknowns, latents = {name: value.double() for name, value in start.items()}, latents.double()
        optimiser: Optimiser = RMSprop(1e-3, 0.9) if kind == "rmsprop" else Adam(1e-3, 20, False, False)

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

    before = whole.images(*drawn(collapsed=False)[1:])
    for one, other in zip(run(whole), run(collapsed), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert float((run(whole)[0] - before).abs().max()) > 0.1


def test_a_trials_generator_does_not_depend_on_how_many_follow() -> None:
    for batch in (1, 2):
        one, many = drawn(trials=1, batch=batch), drawn(trials=3, batch=batch)
        assert torch.equal(one[2][0], many[2][0])
        assert all(torch.equal(value[0], many[1][name][0]) for name, value in one[1].items())


@pytest.mark.parametrize("shape", [(28, 28, 3), (32, 16, 3), (4, 4, 3)])
def test_images_that_no_generator_makes_are_refused_in_one_line(shape: tuple[int, int, int]) -> None:
    model = network("fcnn", {"width": 4}, shape)
    rows, columns, channels = shape
    trials = group(model, torch.rand(1, 1, channels, rows, columns).double(), torch.tensor([[3]]))
    with pytest.raises(Unfit, match=f"attack: unknowns: .* {rows}×{columns} .*mnist-32") as caught:
        generator()(trials, torch.Generator())
    assert "\n" not in str(caught.value)


def test_a_generator_may_read_a_latent_of_another_length() -> None:
    model = network("fcnn", {"width": 4}, (8, 8, 3))
    trials = group(model, torch.rand(1, 2, 3, 8, 8).double(), torch.tensor([[3, 4]]))
    for length in (5, 7):
        unknowns = generator(latent=length)(trials, torch.Generator())
        assert unknowns.start["seed.weight"].shape[1] == length
        assert unknowns.dummies(unknowns.start, torch.tensor([0]))["images"].shape == (1, 2, 3, 8, 8)
