"""GGL and its control: what a generator can make is found, by the gradient and not by the label alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from matching_observations import configured, entry, observe, psnr

from leakbench import attacks
from leakbench.base.errors import Unfit
from leakbench.networks import generators
from leakbench.observations.observation import Observation

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


def run(observation: Observation, module: str = "gradient-matching", **parameters: Any) -> Any:
    made = entry(module=module, **parameters)
    return attacks.run(made, observation, torch.Generator().manual_seed(0))


def test_an_image_of_the_generators_own_is_found_again_and_none_in_noise() -> None:
    observation, images = seen()
    values = configured("ggl") | FEW | {"iterations": 45}
    found = run(observation, **values)
    assert found.labels.flatten().tolist() == [3, 1, 7]
    assert found.iterations == 45
    assert not found.diverged.any()
    reached = sorted(psnr(found.images[:, 0, 0], images))
    # One of the three may end in a valley of its own.
    assert reached[1] > 40
    noise = run(observation.randomised(3, torch.Generator().manual_seed(1)), **values)
    assert max(psnr(noise.images[:, 0, 0], images)) < reached[1] - 20


def test_the_class_mean_looks_at_the_label_alone() -> None:
    observation, _ = seen()
    found = run(observation, "class-mean", samples=50)
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
    assert torch.equal(run(observation, "class-mean", samples=50).images, found.images)


def test_neither_goes_without_a_generator_of_classes() -> None:
    observation, _ = seen()
    for module, values in (("class-mean", {}), ("gradient-matching", configured("ggl"))):
        with pytest.raises(Unfit, match="needs a generator"):
            run(replace(observation, generator=None), module, **values)
        with pytest.raises(Unfit, match="needs classes"):
            run(replace(observation, labelling="joint"), module, **values)
