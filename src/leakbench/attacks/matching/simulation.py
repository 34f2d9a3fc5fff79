"""The update that dummy images would cause over several local steps, each of which is simulated.

Source: InvG, section 4.3.
"""

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.gradients import gradients
from leakbench.base.tensors import Tensors


def simulated_update(
    model: nn.Module, images: Tensor, labels: Tensor, steps: list[slice], lr: float
) -> Tensors:
    """Simulate a client's local steps of plain SGD on dummy images.

    From the second step on each trial has weights of its own, so the trials run one after another.
    """
    found: list[Tensors] = []
    for x, y in zip(images.split(1), labels.split(1), strict=True):
        start: Tensors = dict(model.named_parameters())
        weights = start
        for part in steps:
            gradient, _ = gradients(model, x[:, part], y[:, part], weights=weights)
            weights = {name: weights[name] - lr * value[0] for name, value in gradient.items()}
        found.append({name: weights[name] - start[name] for name in start})
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}
