"""Clients whose batch norm takes each batch's statistics, as in training mode: rounds do not mix."""

import torch
from torch.nn.functional import cross_entropy

from leakbench.federation import local_update
from leakbench.networks import victims


def test_a_round_is_normalised_by_its_own_batch() -> None:
    torch.manual_seed(0)
    model = victims.build("resnet20-4", (16, 16, 3), 10, {"width": 8, "statistics": "batch"}).double().eval()
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, 10, (3, 2))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    assert not dict(model.named_buffers())
    found = local_update(model, weights, images, labels, {}, 1.0, None, 1, "gradient", {})
    for row in range(3):
        alone = torch.autograd.grad(cross_entropy(model(images[row]), labels[row]), list(model.parameters()))
        for (name, _), value in zip(model.named_parameters(), alone, strict=True):
            torch.testing.assert_close(found[name][row], value, rtol=1e-8, atol=1e-12)
