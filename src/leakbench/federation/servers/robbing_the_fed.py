"""Robbing the Fed (Fowl et al., ICLR 2022): one linear query, and biases that sort samples into bins."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.federation.servers import Held, Written, trapped
from leakbench.networks.layers import last_dense

# The first bin has no lower end: every sample opens its neuron.
OPEN = 10.0
# What a network's last layer is multiplied by, so that the network is sure of no label.
UNSURE = 0.01


@torch.no_grad()
def robbing_the_fed(
    model: nn.Module,
    held: Held,
    *,
    bins: Literal["quantiles", "normal"] = "quantiles",
    gain: Annotated[float, Field(gt=0)] = 1.0,
    unsure: bool = True,
) -> Written:
    """Give every neuron of the first dense layer the same weights, the mean of a sample, and its own bias.

    There are as many cuts as neurons, and neuron j is open for samples whose mean exceeds the j-th cut. So
    the gradients of two neighbouring neurons differ by what the samples between their cuts add. The next
    dense layer gets equal columns, because a sample must add the same to every neuron that it opens. With k
    equally likely bins a sample in a batch of B is alone in its bin with probability (1 - 1/k)^(B - 1). This
    is the expected share of the batch that is read exactly. The source is the paper's section 4; `unsure` is
    an addition of this project.

    bins: whether the cuts are quantiles of the means of the server's own samples, or quantiles of the normal
    distribution with the mean and deviation of these means.
    gain: what the weights and biases are multiplied by.
    unsure: whether to scale the network's last layer down. A network that is sure of one label gets almost no
    gradient from samples of this label, and next to the gradients of other samples single precision loses
    them.

    Raises UserError as `trapped` does, if the server has no samples, and if no dense layer reads the neurons
    of the first one.
    """
    layer, read = trapped(model, held.shape, "robbing-the-fed")
    later = reader(model, layer, "robbing-the-fed")
    if held.samples is None:
        raise UserError(
            "malicious: robbing-the-fed fits its bins to samples (give the server auxiliary ones)"
        )
    write_bins(layer, later, read(held.samples).double().mean(1), bins, gain)
    if unsure:
        make_unsure(model)
    return Written({"exact": alone(layer.out_features, held.batch)})


def alone(bins: int, batch: int) -> float:
    """Return the probability that a sample is alone in its bin, where all bins are equally likely."""
    return float((1 - 1 / bins) ** (batch - 1))


def reader(model: nn.Module, layer: nn.Linear, server: str) -> nn.Linear:
    """Return the dense layer behind `layer`."""
    later = next((m for m in model.modules() if isinstance(m, nn.Linear) and m is not layer), None)
    if later is None or later.in_features != layer.out_features:
        raise UserError(
            f"malicious: {server} writes two dense layers, and no second one reads the first (take a "
            "victim such as mlp, or imprinted)"
        )
    return later


def cuts_at(share: Tensor, means: Tensor, bins: str) -> Tensor:
    """Return the quantiles of samples' means, or those of a normal distribution like them."""
    if bins == "quantiles":
        return torch.quantile(means, share)
    return means.mean() + means.std() * torch.special.ndtri(share)


@torch.no_grad()
def write_bins(
    layer: nn.Linear, later: nn.Linear, means: Tensor, bins: str, gain: float, values: int = 0
) -> None:
    """Write one query, the mean of a sample, and biases that cut its results on samples into bins."""
    neurons = layer.out_features
    cuts = cuts_at(torch.arange(neurons, dtype=torch.float64) / neurons, means, bins)
    cuts[0] = -OPEN
    layer.weight.fill_(gain / (values or layer.in_features))
    layer.bias.copy_(-gain * cuts)
    later.weight.copy_(later.weight.mean(1, keepdim=True).expand_as(later.weight))


@torch.no_grad()
def make_unsure(model: nn.Module) -> None:
    """Scale the last dense layer down by UNSURE, so that all labels are about equally likely."""
    last = model.get_submodule(last_dense(model))
    for parameter in last.parameters(recurse=False):
        parameter.mul_(UNSURE)
