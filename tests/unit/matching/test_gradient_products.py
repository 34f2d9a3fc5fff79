"""Products of gradients that are never made, against those that are."""

import pytest
import torch
from trial_networks import CLASSES, met

from leakbench.attacks.matching.engines.gradient_products import gradient_products, rows_of
from leakbench.attacks.matching.engines.gradients import engines_fit, gradients


@pytest.mark.parametrize(("module", "parameters"), [("lenet_dlg", {}), ("resnet20_4", {"width": 4})])
@pytest.mark.parametrize("batch", [1, 2])
def test_products_are_of_each_trials_own_observation_by_its_weights(
    module: str, parameters: dict[str, object], batch: int
) -> None:
    model = met(module, parameters).requires_grad_(False)
    rng = torch.Generator().manual_seed(1)
    images = torch.rand(3, batch, 3, 32, 32, generator=rng, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (3, batch), generator=rng)
    owner = torch.tensor([1, 0, 0])
    made = {n: g.detach() for n, g in gradients(model, images.clone().requires_grad_(), labels)[0].items()}
    seen = {n: g[1:] + 0.5 * g[:1] for n, g in made.items()}
    observed = {n: rows_of(g) for n, g in seen.items()}
    weights = {n: torch.rand(3, generator=rng, dtype=torch.float64) for n in made}
    for each in (None, weights):
        found = gradient_products(model, images.clone(), labels, observed, owner, each)
        for kind, other in (("mine", made), ("dot", {n: o[owner] for n, o in seen.items()})):
            expected = sum(
                (made[n] * other[n]).flatten(1).sum(1) * (1 if each is None else each[n]) for n in made
            )
            torch.testing.assert_close(found[kind], expected, rtol=1e-9, atol=1e-12)


def test_no_gradient_of_a_wide_layer_is_made() -> None:
    """A dense layer of 40 million weights: eight gradients of it would be 1.2 GB."""
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(300, 130_000), torch.nn.ReLU())
    model = torch.nn.Sequential(model, torch.nn.Linear(130_000, 10, bias=False)).requires_grad_(False)
    observed = {name: rows_of(torch.ones(1, *value.shape)) for name, value in model.named_parameters()}
    engines_fit(model, torch.Size([1, 3, 10, 10]))
    with torch.profiler.profile(profile_memory=True) as profile:
        gradient_products(
            model, torch.rand(8, 1, 3, 10, 10), torch.zeros(8, 1, dtype=torch.long), observed,
            torch.zeros(8, dtype=torch.long),
        )  # fmt: skip
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert largest < 40 * 130_000 * 8
