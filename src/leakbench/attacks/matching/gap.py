"""How far the gradients of reconstructions are from those observed.

The measure is the same for all attacks, whatever they minimise.
"""

import torch
from torch import Tensor

from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors


def gradient_gap(group: Group, dummies: Tensors, chunk: int) -> Tensor:
    """Return the mean squared difference between the gradients that dummies cause and those observed."""
    found = []
    for rows in torch.arange(group.trials).split(chunk):
        own = {name: value[rows].to(group.device) for name, value in dummies.items()}
        images = group.to_pixels(own["images"]).requires_grad_()
        labels = own["labels"].softmax(2) if group.labels is None else group.labels[rows]
        mine = group.caused(images, labels, rows, own)
        squares = [(mine[name].detach() - o).square().flatten(1) for name, o in group.observed(rows).items()]
        found.append(torch.cat(squares, 1).mean(1).cpu())
    return torch.cat(found)
