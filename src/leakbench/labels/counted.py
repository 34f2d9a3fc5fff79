"""Counting labels with repeats, one image after another."""

import torch
from torch import Tensor


def counted(weight: Tensor, bias: Tensor | None, batch: int) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    Summed over its inputs, a class's row of the mean gradient is (Σ p_c - n_c) · s / batch for inputs of sum s, as long
    as the probabilities p differ little between images (an untrained network). The bias gradient is the same with s = 1,
    so no estimate of s is needed where there is a bias. Each label found takes its share out, and the lowest class left
    is the next: first those that must be there because their row is negative, then repeats.
    Source: LLG (Wainakh et al.), whose impact this estimates from the update alone.
    """
    rows = weight.sum(2) if bias is None else bias
    lowest = rows.clamp_max(0).sum(1, keepdim=True)
    impact = (
        lowest / batch * (1 + 1 / weight.shape[1]) if bias is None else torch.full_like(lowest, -1 / batch)
    )
    left = rows.clone()
    found = []
    present = rows < 0
    for _ in range(batch):
        unseen = torch.where(present, rows, torch.inf)
        label = torch.where(present.any(1), unseen.argmin(1), left.argmin(1))
        present = present.scatter(1, label[:, None], False)
        left = left.scatter_add(1, label[:, None], -impact)
        found.append(label)
    return torch.stack(found, 1)
