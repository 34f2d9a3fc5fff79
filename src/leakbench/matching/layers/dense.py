"""Dense layers."""

import torch
from torch import Tensor, nn

from leakbench.matching.layers.rule import Kept, Link, Rule
from leakbench.tensors import Tensors


def outer(delta: Tensor, x: Tensor) -> Tensor:
    """Return a dense layer's weight gradient [trials, out, in] of slopes [trials, batch, out] and inputs
    [trials, batch, in]."""
    # A product of one column by one row is three times slower than what it is: a multiplication.
    return delta.mT * x if x.shape[1] == 1 else delta.mT @ x


def _gradients(
    layer: nn.Linear, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None = None
) -> Tensors:
    # Behind the batch there may be other axes, such as an attention's tokens.
    slopes, inputs = (value.unflatten(0, (trials, -1)).flatten(1, -2) for value in (slope, x))
    weight = outer(slopes, inputs)
    return {"weight": weight} if layer.bias is None else {"weight": weight, "bias": slopes.sum(1)}


def _operands(layer: nn.Linear, x: Tensor, slope: Tensor, n: int) -> tuple[Tensor, Tensor]:
    inputs, slopes = (value.unflatten(0, (n, -1)).flatten(1, -2) for value in (x, slope))
    return inputs, slopes


def _rate(layer: nn.Linear, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors) -> Tensor:
    found = kept[0].unflatten(0, (len(own["weight"]), -1)) @ own["weight"].mT
    if "bias" in own:
        found += own["bias"][:, None]
    flat = found.flatten(0, 1)
    return flat if rate is None else flat.addmm_(rate, layer.weight.T)


def _back(
    layer: nn.Linear, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
    own: Tensors
) -> Tensor:  # fmt: skip
    found = slope.unflatten(0, (len(own["weight"]), -1)) @ own["weight"]
    return found.flatten(0, 1).addmm_(rate, layer.weight)


DENSE = Rule(
    _gradients,
    _operands,
    Link(
        lambda layer, x, trials: (layer(x), (x,)),
        lambda layer, kept, read, slope: slope @ layer.weight,
        _rate,
        _back,
        lambda layer, kept, slope, trials: _gradients(layer, kept[0], slope, trials),
    ),
)
