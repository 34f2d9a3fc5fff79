"""Counting labels with repeats, one sample after another: our own combination of ZLG and LLG."""

import torch
from torch import Tensor

from leakbench.attacks.label_inference import LastLayer, apportioned


def counted(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    The counts are n_k = B (p_k - g_k), as in `zlg`. Where the layer has a bias, g is the gradient of the
    bias, so that nothing is assumed about what the layer reads. Without a bias, g is the sum of a row of the
    weights' gradient divided by the sum s of the layer's inputs. s follows from the negative rows, because
    these hold all images. The mean prediction on noise is taken for p. As in `llg`, every class whose row is
    negative occurs at least once. Each further image goes to the class that is short of most.
    """
    rows = layer.weight.sum(2) if layer.bias is None else layer.bias
    present = rows < 0
    share = torch.ones_like(rows[:, :1])
    if layer.bias is None:
        missing = 1 - (layer.prior * present).sum(1, keepdim=True)
        share = -rows.clamp_max(0).sum(1, keepdim=True) / missing.clamp_min(1 / layer.batch)
    ideal = layer.batch * (layer.prior - rows / share.clamp_min(1e-30))
    return apportioned(ideal, present.long(), layer.batch)
