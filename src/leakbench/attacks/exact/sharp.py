"""Whether a proven sample is one record to within a step: a proof alone allows for what noise may hide."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from leakbench.attacks.exact.any_loss import of_any_loss
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.proof import of_all
from leakbench.attacks.exact.span import Span


def sharp(layer: FirstLayer, seen: Span, samples: Tensor, labels: Tensor, step: float) -> Tensor:
    """Return which proven samples are one sample of the batch up to `step` in each number, bool [n]."""
    read, whole = samples @ seen.right.T, len(samples) == len(seen.values)
    # Where no neuron closes, each holds a little of all samples.
    closes = layer.logits is None or (layer.linear(samples)[1] == 0).all(1).any(1)
    if not layer.known:
        if whole:
            columns = normalize((torch.linalg.pinv(read) * seen.values[:, None]).T, dim=1)
            if (of_any_loss if layer.any_loss else of_all)(layer, seen, samples, columns).all():
                return torch.ones(len(samples), dtype=torch.bool)
        # The proof allows for 1 % then. Neurons that hold one sample alone agree on it as far as it is known.
        moved = layer.offset != 0
        apart = torch.cdist(samples, layer.slope[moved] / layer.offset[moved, None], p=torch.inf)
        return ((apart <= step / 2).sum(1) > 1) & closes
    caused = layer.caused(samples)[torch.arange(len(samples)), labels] @ seen.left
    if whole:
        # All columns give all samples once more, and off by less.
        again = torch.linalg.lstsq(caused.T, seen.values[:, None] * seen.right).solution
        times = ((again * samples).sum(1) / samples.square().sum(1)).round().clamp_min(1)
        closes = (again / times[:, None] - samples).abs().amax(1) <= step / 2
    # Two records x ± d of one class that open the same neurons add 2 c xᵀ, as if x were in the batch twice,
    # and 2 (c' d) dᵀ. If the update's rounding hides that, their mean x has a proof, whatever d is.
    once = (read * caused / seen.values).sum(1) > 2 / 3
    steep = layer.steepness(samples, seen.right).norm(dim=1)
    hidden = (seen.noise * seen.values[0] / (2 * steep)).sqrt()
    return closes & (once | (hidden <= step) | (len(seen.values) == layer.batch))
