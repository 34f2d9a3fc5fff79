"""Many neurons of one layer with nearly the same weights, as bins have (Robbing the Fed, LOKI)."""

from torch import nn

from leakbench.base.errors import Unfit
from leakbench.federation.detectors import Received

# The share of pairs of rows. Chance and training make fewer than one pair in a thousand alike.
ALARM = 0.01
# Two rows are alike above this cosine.
COSINE = 0.999


def rows_alike(received: Received) -> float:
    """Return the share of pairs of neurons whose weights have a cosine above 0.999, in [0, 1].

    The share is that of the dense layer in which it is largest. Raises Unfit where no dense layer has two
    neurons.
    """
    shares = []
    for layer in received.model.modules():
        if isinstance(layer, nn.Linear) and layer.out_features > 1:
            rows = layer.weight.detach().double()
            unit = rows / rows.norm(dim=1, keepdim=True).clamp_min(1e-30)
            pairs = (unit @ unit.T).triu(1) > COSINE
            shares.append(float(pairs.sum()) / (len(rows) * (len(rows) - 1) / 2))
    if not shares:
        raise Unfit("no dense layer has two neurons")
    return max(shares)
