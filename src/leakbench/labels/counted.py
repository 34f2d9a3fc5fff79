"""Counting labels with repeats, one sample after another: our mixture of ZLG and LLG."""

import torch
from torch import Tensor

from leakbench.labels import LastLayer, apportioned


def counted(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    n_k = B (p_k - g_k), as `zlg` has it, with the bias's own gradient g where there is one, so that nothing
    is assumed of what the layer reads. Where there is no bias, g is the sum of a row of the weights'
    gradient over the sum s of the layer's inputs, and s follows from the rows that are negative, for those
    hold all images. The mean prediction on noise stands for p. As in `llg`, every class whose row is negative
    is there once; further images go to the class that is short of most.
    """
    rows = layer.weight.sum(2) if layer.bias is None else layer.bias
    present = rows < 0
    share = torch.ones_like(rows[:, :1])
    if layer.bias is None:
        missing = 1 - (layer.prior * present).sum(1, keepdim=True)
        share = -rows.clamp_max(0).sum(1, keepdim=True) / missing.clamp_min(1 / layer.batch)
    ideal = layer.batch * (layer.prior - rows / share.clamp_min(1e-30))
    return apportioned(ideal, present.long(), layer.batch)
