"""Reading the bins of an imprint block."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from leakbench import servers, victims
from leakbench.attacks.imprint import imprint
from leakbench.attacks.observation import Observation
from leakbench.errors import Unfit
from leakbench.servers import Held

SHAPE, PLACE = (6, 6, 1), (1, 6, 6)


def observed(
    module: str, parameters: dict[str, object], batch: int, server: str = "robbing_the_fed", seed: int = 0
) -> tuple[Observation, torch.Tensor]:
    """Return what a server sees of one gradient, and the samples [batch, …] behind it."""
    torch.manual_seed(seed)
    model = victims.build(module, SHAPE, 5, parameters).eval()
    own = torch.rand(20000, 1, 1, 1) * torch.rand(20000, *PLACE)
    images, labels = own[:batch], torch.arange(batch) % 5
    if server:
        servers.build(server, {})(model, Held(PLACE, batch, torch.Generator().manual_seed(1), own[batch:]))
    named = dict(model.named_parameters())
    gradient = torch.autograd.grad(cross_entropy(model(images), labels), list(named.values()))
    return Observation(
        network={"module": module, "parameters": parameters, "shape": list(SHAPE), "classes": 5},
        weights={name: value.detach().numpy()[None] for name, value in model.state_dict().items()},
        updates={name: value.numpy()[None, None] for name, value in zip(named, gradient, strict=True)},
        origin=np.zeros(1, np.int64),
        clients=[batch],
        kind="gradient",
    ), images


def read(observation: Observation, images: torch.Tensor) -> torch.Tensor:
    """Return which samples [batch] are among the usable reconstructions, to a tenth of an 8-bit step."""
    found = imprint(observation, torch.Generator())
    guesses = found.images[0, 0][found.usable[0, 0]]
    return (torch.cdist(images.flatten(1), guesses.flatten(1), p=torch.inf) < 0.1 / 255).any(1)


@pytest.mark.parametrize(
    ("module", "parameters"),
    [
        ("imprinted", {"bins": 100}),
        ("mlp", {"hidden": [100, 20]}),
        ("mlp", {"hidden": [100, 20], "normalise": "mnist"}),
    ],
)
def test_exactly_the_samples_that_are_alone_in_their_bins_are_read(
    module: str, parameters: dict[str, object]
) -> None:
    for seed in range(3):
        observation, images = observed(module, parameters, 24, seed=seed)
        model = observation.model()
        kept: list[torch.Tensor] = []
        layer = next(m for m in model.modules() if isinstance(m, torch.nn.Linear))
        layer.register_forward_hook(lambda _, inputs, output, kept=kept: kept.append(output))
        model(images)
        place = (kept[0] > 0).sum(1)
        alone = torch.bincount(place, minlength=101)[place] == 1
        assert 0 < alone.sum() < 24 or seed
        assert torch.equal(read(observation, images), alone)


def test_the_share_that_is_read_follows_the_closed_form() -> None:
    shares = [
        read(*observed("mlp", {"hidden": [64, 20]}, 32, seed=seed)).double().mean().item()
        for seed in range(30)
    ]
    assert np.mean(shares) == pytest.approx((1 - 1 / 64) ** 31, abs=0.05)


def test_no_more_samples_are_returned_than_the_batch_has() -> None:
    observation, _ = observed("mlp", {"hidden": [100, 20]}, 8)
    assert imprint(observation, torch.Generator()).usable.shape == (1, 1, 8)


def test_weights_that_ask_several_queries_are_refused() -> None:
    observation, _ = observed("mlp", {"hidden": [100, 20]}, 8, server="")
    with pytest.raises(Unfit, match="those of dense1 ask several"):
        imprint(observation, torch.Generator())
    convolutional, _ = observed("lenet_dlg", {}, 8, server="")
    with pytest.raises(Unfit, match="reads samples"):
        imprint(convolutional, torch.Generator())
