"""How far the gradients of reconstructions are from those observed, alike for all attacks, whatever they
minimise."""

import torch
from torch import Tensor

from leakbench.matching.trials import Group
from leakbench.tensors import Tensors


def gradient_gap(group: Group, dummies: Tensors, chunk: int) -> Tensor:
    """Return the mean squared difference over all parameters of what the dummies would cause and what was
    observed.

    dummies: `images` in the victim's normalised space, [trials, batch, …], and logits `labels` if they are
    unknown; `chunk` trials at a time. Returns [trials].
    """
    found = []
    for rows in torch.arange(group.trials).split(chunk):
        images = group.to_pixels(dummies["images"][rows].to(group.device)).requires_grad_()
        labels = (
            dummies["labels"][rows].to(group.device).softmax(2)
            if group.labels is None
            else group.labels[rows]
        )
        lock = {name: dummies[name][rows].to(group.device) for name in dummies if name.startswith("lock.")}
        mine = group.caused(images, labels, rows, lock)
        squares = [(mine[name].detach() - o).square().flatten(1) for name, o in group.observed(rows).items()]
        found.append(torch.cat(squares, 1).mean(1).cpu())
    return torch.cat(found)
