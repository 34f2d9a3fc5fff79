"""One step of Adam tells its gradient, as far as single precision resolves the step."""

import pytest
import torch
from observing import seen_of, sent_by
from torch import Tensor

from leakbench.attacks.exact.adam import stepped_back, unscaled
from leakbench.networks import victims

LOCAL = {"optimiser": "adamw", "lr": 0.001, "batch_size": None, "epochs": 1, "weight_decay": 0.01}


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_gradient_follows_from_one_step_of_torchs_adamw(decay: float) -> None:
    torch.manual_seed(0)
    weight = torch.randn(1000) * 10.0 ** -torch.arange(1000).remainder(6)
    slope = torch.randn(1000) * 10.0 ** -torch.arange(1000).remainder(5)
    own = torch.nn.Parameter(weight.clone())
    own.grad = slope.clone()
    torch.optim.AdamW([own], lr=0.01, weight_decay=decay).step()
    found, error = unscaled(own.detach() - weight, weight, 0.01, decay)
    off = (found - slope).abs() / error
    # What rounding leaves open is known from below.
    open_ = error > 0.3 * found.abs()
    assert off[~open_].max() < 6
    assert (slope.abs() > 0.3 * found.abs())[open_].all()
    assert 300 < int((~open_).sum()) < 900


@pytest.mark.parametrize(
    ("module", "shape", "gain"), [("mlp", (12, 12, 1), 0.1), ("lenet-dlg", (8, 8, 1), -0.01)]
)
def test_a_step_is_nearer_to_the_gradient_than_its_signs(
    module: str, shape: tuple[int, int, int], gain: float
) -> None:
    """A network with gradients beyond what rounding resolves leaves hardly more than signs, and no less."""
    torch.manual_seed(0)
    model = victims.build(module, shape, 10, {})
    images, labels = torch.rand(2, 4, shape[2], *shape[:2]), torch.randint(0, 10, (2, 4))
    slope, step = (sent_by(model, images, labels, kind, LOCAL) for kind in ("gradient", "model"))
    seen = seen_of(model, {"module": module, "shape": shape}, step, 4, kind="model", local=LOCAL)
    found = stepped_back(seen)
    assert found.kind == "gradient"
    whole = along({name: torch.from_numpy(value) for name, value in found.updates.items()}, slope)
    assert whole > along({name: -value.sign() for name, value in step.items()}, slope) + gain
    # Several steps have no such gradient.
    later = seen_of(
        model, {"module": module, "shape": shape}, step, 4, kind="model", local=LOCAL | {"epochs": 2}
    )
    assert stepped_back(later) is later


def along(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Return the cosine of two gradients."""
    flat = [torch.cat([each[name].flatten() for name in other]).double() for each in (one, other)]
    return float(torch.cosine_similarity(*flat, dim=0))
