"""LLG: what one sample adds to its class's row is the same for all."""

from torch import Tensor

from leakbench.labels import LastLayer, apportioned


def llg(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    A row's sum s_k is negative only for classes of the batch, which are all there once. One sample lowers s
    by m = (1 + 1/K) / B times the sum of the negative ones, and further labels go to the least s, which rises
    by m each time. Needs layer inputs that are not negative, as behind a ReLU. Over several local steps s is
    their mean, so m stays as it is. Source: Wainakh et al., User-level label leakage from gradients in
    federated learning (PETS 2022), and their released code.
    """
    rows = layer.weight.sum(2)
    impact = rows.clamp_max(0).sum(1, keepdim=True) / layer.batch * (1 + 1 / layer.classes)
    return apportioned(rows / impact.clamp_max(-1e-30), (rows < 0).long(), layer.batch)
