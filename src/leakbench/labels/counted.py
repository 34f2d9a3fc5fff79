"""Counting labels with repeats, one image after another."""

import torch
from torch import Tensor


def counted(weight: Tensor, bias: Tensor | None, batch: int, prior: Tensor) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    The mean gradient of a class's bias is p_c - n_c / batch, for the batch's mean probability p and n_c
    images of the class; summed over its inputs, the class's row of the weight gradient is that times their
    sum s, if images differ little in it. Where there is no bias, s follows from the rows that are negative,
    for those hold all images. The model's mean prediction on noise stands for p. Classes whose row is
    negative must be there; further images go to the class that is short of most. Source: LLG (Wainakh et
    al.), whose impact and offset these are.
    """
    rows = weight.sum(2) if bias is None else bias
    present = rows < 0
    share = torch.ones_like(rows[:, :1])
    if bias is None:
        missing = 1 - (prior * present).sum(1, keepdim=True)
        share = -rows.clamp_max(0).sum(1, keepdim=True) / missing.clamp_min(1 / batch)
    left = rows / share.clamp_min(1e-30) - prior
    found = []
    for _ in range(batch):
        label = torch.where(present.any(1), torch.where(present, left, torch.inf).argmin(1), left.argmin(1))
        present = present.scatter(1, label[:, None], False)
        left = left.scatter_add(1, label[:, None], torch.full_like(left[:, :1], 1 / batch))
        found.append(label)
    return torch.stack(found, 1)
