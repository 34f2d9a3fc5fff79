"""LOKI, or MANDRAKE (Zhao et al., CVPR 2023 and S&P 2024): each client is sent a model of its own, so that a
sum keeps clients apart."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.errors import UserError
from leakbench.servers import Held, Written
from leakbench.servers.robbing_the_fed import alone, make_unsure, reader, write_bins


@torch.no_grad()
def loki(
    model: nn.Module,
    held: Held,
    *,
    bins: Literal["quantiles", "normal"] = "quantiles",
    gain: Annotated[float, Field(gt=0)] = 1.0,
    unsure: bool = True,
) -> Written:
    """Send each client kernels of its own that copy a sample, all others zero, and sort samples into bins.

    The network begins with a convolution that has a group of kernels for each client, one kernel for each
    channel of a sample. In the i-th client's model the i-th group alone copies the sample, so of the dense
    layer behind it only the columns that read this group get a gradient. In a sum over clients every block of
    columns is then of one client. The dense layer sorts samples into bins by their mean, as in Robbing the
    Fed; the expected share is that of the largest client's batch.

    bins, gain, unsure: as in `robbing_the_fed`. Source: both papers' convolution of three kernels for each
    client.
    Raises UserError where fewer than two clients take part, without samples, and where the network does not
    begin with such a convolution, its padding keeping the size, before two dense layers.
    """
    clients = len(held.clients)
    if clients < 2:
        raise UserError(
            "malicious: loki keeps the clients of a sum apart (give the federation two clients or more)"
        )
    if held.samples is None:
        raise UserError("malicious: loki fits its bins to samples (give the server auxiliary ones)")
    name, convolution, layer = _places(model, held.shape, clients)
    later = reader(model, layer, "loki")
    write_bins(layer, later, held.samples.flatten(1).double().mean(1), bins, gain, math.prod(held.shape))
    each = taps(convolution.weight.shape, clients)
    if unsure:
        make_unsure(model)
    # The model that all clients would share: a client that has no group gives nothing away.
    convolution.weight.zero_()
    return Written({"exact": alone(layer.out_features, max(held.clients))}, {f"{name}.weight": each})


def taps(shape: torch.Size, clients: int) -> Tensor:
    """Return the kernels of each client, of which its own group alone copies a sample: [clients, *shape].

    shape: kernels, channels, rows and columns of the convolution's weights.
    """
    _, channels, rows, columns = shape
    each = torch.zeros(clients, *shape)
    for client in range(clients):
        for channel in range(channels):
            each[client, client * channels + channel, channel, rows // 2, columns // 2] = 1
    return each


def _places(model: nn.Module, shape: tuple[int, int, int], clients: int) -> tuple[str, nn.Conv2d, nn.Linear]:
    """Return the first convolution, by its name, and the dense layer that reads it. Raises UserError where
    the network does not begin so, or has too few kernels."""
    weighted = [
        (name, module)
        for name, module in model.named_modules()
        if next(module.parameters(recurse=False), None) is not None
    ][:2]
    (name, convolution), (_, layer) = weighted if len(weighted) == 2 else [("", None)] * 2
    channels, rows, columns = shape
    if not (
        isinstance(convolution, nn.Conv2d)
        and isinstance(layer, nn.Linear)
        and convolution.bias is None
        and layer.in_features == convolution.out_channels * rows * columns
    ):
        raise UserError(
            "malicious: loki writes a convolution without a bias, which keeps a sample's size, and a dense "
            "layer that reads it, and the network does not begin so (take the victim imprinted with clients)"
        )
    if convolution.out_channels < channels * clients:
        raise UserError(
            f"malicious: loki needs {channels} kernels for each of {clients} clients, and the first "
            f"convolution has {convolution.out_channels} (give the victim as many clients)"
        )
    return name, convolution, layer
