"""What label rules are given: last dense layers with real gradients, and some that are made by hand."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.attacks.label_inference import Answers, LastLayer, Probe
from leakbench.networks import victims
from leakbench.networks.layers import last_dense

EVEN = torch.full((10,), 0.1)


def never() -> Answers:
    """Stand for the client's models where an update is one gradient."""
    raise AssertionError("the update is a gradient")


def seen(
    module: str, parameters: dict[str, Any], truth: Tensor, biased: bool = True, classes: int = 10,
    only: int | None = None,
) -> LastLayer:  # fmt: skip
    """Return what is known of the last layer for noise images with labels `truth` [trials, batch]."""
    torch.manual_seed(0)
    model = victims.build(module, (32, 32, 3), classes, parameters).eval()
    layer = model.get_submodule(last_dense(model))
    each = []
    for row in truth:
        loss = cross_entropy(model(torch.rand(len(row), 3, 32, 32)), row)
        each.append(torch.autograd.grad(loss, list(layer.parameters())))
    weight, bias = (torch.stack(parts) for parts in zip(*each, strict=True))
    read: list[Tensor] = []
    layer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with torch.no_grad():
        logits = model(torch.rand(64, 3, 32, 32))
    noise = Probe(lambda: Answers(read[0], logits), never, torch.arange(64) % classes)
    part = slice(None) if only is None else slice(only, only + 1)
    return LastLayer(
        weight[part], bias[part] if biased else None, truth.shape[1], noise, layer, auxiliary=noise
    )


def by_hand(bias: Tensor, batch: int, biased: bool = True) -> LastLayer:
    """Return a layer that reads 0.5, 2, 0.25, with this gradient of its bias, and predicts noise evenly."""
    inputs = torch.tensor([0.5, 2.0, 0.25])
    noise = Probe(lambda: Answers(inputs.expand(4, 3), torch.zeros(4, len(bias))), never)
    layer = nn.Linear(3, len(bias))
    return LastLayer((bias[:, None] * inputs)[None], bias[None] if biased else None, batch, noise, layer)
