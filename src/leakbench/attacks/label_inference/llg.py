"""LLG: what one sample adds to the row of its class is the same for all samples."""

from torch import Tensor

from leakbench.attacks.label_inference import LastLayer, apportioned


def llg(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    The sum s_k of a row is negative only for classes of the batch, so each class with a negative sum occurs
    at least once. One sample lowers s by m, which is (1 + 1/K) / B times the sum of the negative ones. Each
    further label goes to the least s, which then rises by m. The rule needs layer inputs that are not
    negative, as behind a ReLU. Over several local steps s is their mean, so m stays the same. It is that of
    Wainakh et al., User-level label leakage from gradients in federated learning (PETS 2022), and their
    released code.
    """
    rows = layer.weight.sum(2)
    impact = rows.clamp_max(0).sum(1, keepdim=True) / layer.batch * (1 + 1 / layer.classes)
    return apportioned(rows / impact.clamp_max(-1e-30), (rows < 0).long(), layer.batch)
