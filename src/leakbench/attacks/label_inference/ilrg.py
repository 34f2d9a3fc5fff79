"""iLRG: the mean input of each class is read off its row, and the layer itself gives its predictions."""

import torch
from torch import Tensor

from leakbench.attacks.label_inference import LastLayer, nearest

# A ratio beyond this is taken for a division by zero, as in the authors' code.
LARGEST = 1e10


@torch.no_grad()
def ilrg(layer: LastLayer) -> Tensor:
    """Return labels that may repeat: [trials, batch].

    What the layer reads of class i is approximately row i of the weights' gradient divided by entry i of the
    bias's gradient. From it the layer predicts the probabilities P_i, "as if of class i". Then Σ_i P_ij n_i -
    n_j = B g_j for every class j, and Σ n = B. The least-squares solution is cut at zero and rounded. Then
    labels are added or removed one by one where the rounding went furthest. Raises Unfit for a layer without
    bias.

    The rule is that of Ma et al., Instance-wise batch label restoration via gradients in federated learning
    (ICLR 2023). Their released code adds a label to nearly all classes where one is missing, and prints the
    counts from before that step. Here labels are added only until there are as many as samples.
    """
    bias, weight = layer.needed_bias("ilrg").double(), layer.weight.double()
    divisor = torch.where(bias == 0, torch.full_like(bias, LARGEST**-1), bias)
    inputs = (weight / divisor[:, :, None]).clamp(-LARGEST, LARGEST)
    offset = 0 if layer.sent.bias is None else layer.sent.bias.double()
    guessed = (inputs @ layer.sent.weight.double().T + offset).softmax(2)
    equations = guessed.mT - torch.eye(layer.classes, dtype=bias.dtype)
    system = torch.cat([torch.ones_like(equations[:, :1]), equations], 1)
    right = layer.batch * torch.cat([torch.ones_like(bias[:, :1]), bias], 1)
    return nearest((torch.linalg.pinv(system) @ right[:, :, None])[:, :, 0], layer.batch)
