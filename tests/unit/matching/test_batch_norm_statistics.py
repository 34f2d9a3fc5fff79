"""The prior of batch-norm statistics: its value by hand, its derivative, and where it cannot be had."""

import pytest
import torch
from torch import nn
from trial_networks import CLASSES, group, network, terms

from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.objectives.batch_norm_statistics import batch_norm_statistics
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit

SHAPE = (16, 16, 3)


def trials(statistics: str = "running", batch: int = 2) -> Group:
    torch.manual_seed(3)
    model = network("lenet_dlg", {"norm": "batch", "statistics": statistics}, SHAPE)
    images = torch.rand(3, batch, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    return group(model, images, torch.randint(0, CLASSES, (3, batch)))


def drawn(of: Group) -> torch.Tensor:
    return of.draw("normal", torch.Generator().manual_seed(4))["images"].double()


def is_the_distance(sign: float = 1.0) -> None:
    """Assert that the prior, times `sign`, is the distance of means and variances."""
    of, prior = trials(), batch_norm_statistics(weight=1.0)
    images = drawn(of)
    values = sign * prior.of(of)(images)[0]
    for trial, value in enumerate(values):
        x, expected = of.to_pixels(images[trial]), 0.0
        for layer in of.model.children():
            if isinstance(layer, nn.BatchNorm2d):
                assert layer.running_mean is not None
                assert layer.running_var is not None
                mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
                expected += float((mean - layer.running_mean).norm() + (variance - layer.running_var).norm())
            x = layer(x)
        assert float(value) == pytest.approx(expected, rel=1e-9)


def test_the_value_is_the_distance_of_means_and_variances_trial_by_trial() -> None:
    is_the_distance()
    # Guards the line above.
    with pytest.raises(AssertionError):
        is_the_distance(-1.0)


def test_the_derivative_passes_gradcheck() -> None:
    valued = batch_norm_statistics(weight=1.0).of(trials())
    images, step = drawn(trials()), torch.randn(3, 2, 3, 16, 16, dtype=torch.float64) * 1e-6
    _, slope = valued(images)
    apart = (valued(images + step)[0] - valued(images - step)[0]) / 2
    torch.testing.assert_close(apart, (slope * step).flatten(1).sum(1), rtol=1e-4, atol=1e-12)


def test_it_is_added_with_its_weight() -> None:
    of = trials()
    unknowns, rows = {"images": drawn(of)}, torch.arange(3)
    plain, slopes = Objective(of, terms("cosine")).evaluate(rows)(unknowns)
    both, more = Objective(of, [*terms("cosine"), batch_norm_statistics(weight=0.5)]).evaluate(rows)(unknowns)
    value, slope = batch_norm_statistics(weight=0.5).of(of)(unknowns["images"])
    torch.testing.assert_close(both, plain + 0.5 * value)
    torch.testing.assert_close(more["images"], slopes["images"] + 0.5 * slope)


def test_a_network_without_running_statistics_is_refused() -> None:
    with pytest.raises(Unfit, match="needs a network that sends running statistics") as problem:
        batch_norm_statistics(weight=0.5).of(trials("batch"))
    assert "\n" not in str(problem.value)


def test_true_images_of_a_trained_networks_kind_are_likelier_than_noise() -> None:
    """Statistics that were taken from the images themselves: nothing is nearer."""
    of = trials(batch=4)
    true = torch.rand(1, 4, SHAPE[2], *SHAPE[:2], dtype=torch.float64)
    for layer in of.model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 1.0
            layer.train()
    with torch.no_grad():
        for _ in range(3):
            of.model(true[0])
    of.model.eval()
    valued = batch_norm_statistics(weight=1.0).of(of)
    own, noise = (
        float(valued((images - of.mean) / of.deviation)[0]) for images in (true, torch.rand_like(true) ** 3)
    )
    assert own < 0.05 * noise
