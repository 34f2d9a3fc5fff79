"""CENSOR: what it sends says nothing of the gradient, and what the released version sends does."""

import pytest
import torch
from torch import nn

from leakbench import defences
from leakbench.attacks.adaptive.censor import censor as known
from leakbench.defences import Batch, Update
from leakbench.defences.censor import orthogonal

IMAGES, LABELS = torch.rand(8, 20, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 4


def batch(scale: float = 1.0) -> Batch:
    """Return a batch; `scale` multiplies its loss, and so its gradient."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4)).double()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    loss = nn.functional.cross_entropy
    return Batch(model, weights, IMAGES.double(), LABELS, loss=lambda z, y: scale * loss(z, y))


def sent(steps: int, scale: float = 1.0, **parameters: object) -> list[Update]:
    """Return the gradients of steps of one client, whose weights stay as they are."""
    defence = defences.build("censor", parameters)
    rng = torch.Generator().manual_seed(0)
    assert defence.examples is not None
    return [defence.examples(batch(scale), rng) for _ in range(steps)]


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), 0))


def test_a_direction_is_orthogonal_to_each_tensor_and_as_long() -> None:
    (found,), plain = sent(1), batch().mean()
    for name, value in plain.items():
        assert abs(cosine(found[name], value)) < 1e-9
        assert float(found[name].norm()) == pytest.approx(float(value.norm()))


@pytest.mark.parametrize(("norm", "deviation"), [(1e-3, 0.1), (1.0, 0.0), (1000.0, 0.6)])
def test_the_released_projection_is_orthogonal_to_tensors_of_norm_one_alone(
    norm: float, deviation: float
) -> None:
    rng = torch.Generator().manual_seed(0)
    value = torch.randn(100, generator=rng, dtype=torch.float64)
    value *= norm / value.norm()
    found = torch.tensor([cosine(orthogonal(value, rng, True), value) for _ in range(500)])
    # A random direction has a deviation of 1 / sqrt(100); a long tensor is subtracted many times over.
    assert float(found.square().mean().sqrt()) == pytest.approx(deviation, rel=0.75, abs=1e-9)


def test_the_released_version_leans_towards_the_gradient_and_the_mean_of_rounds_tells_it() -> None:
    plain, pooled = batch(0.01).mean()["2.weight"], known().pooled
    assert pooled is not None
    released = torch.stack([each["2.weight"] for each in sent(300, 0.01, released=True)])
    published = torch.stack([each["2.weight"] for each in sent(300, 0.01)])
    assert cosine(pooled(released), plain) > 0.5
    assert abs(cosine(pooled(published), plain)) < 1e-9


def test_the_released_version_sends_the_gradient_where_no_direction_lowers_the_loss() -> None:
    plain = batch().mean()
    defence = defences.build("censor", {"released": True, "rate": 1e9})
    assert defence.examples is not None
    found = defence.examples(batch(), torch.Generator().manual_seed(0))
    assert all(torch.equal(value, plain[name]) for name, value in found.items())
    (published,) = sent(1, rate=1e9)
    assert abs(cosine(published["0.weight"], plain["0.weight"])) < 1e-9
