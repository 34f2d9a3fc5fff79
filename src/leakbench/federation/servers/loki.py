"""LOKI, or MANDRAKE (Zhao et al., CVPR 2023 and S&P 2024): a model for each client keeps a sum apart."""

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.federation.servers import Held, Written
from leakbench.federation.servers.robbing_the_fed import alone, cuts_at, make_unsure, reader, write_bins

# The smallest distance between two cuts.
NARROW = 1e-9


@torch.no_grad()
def loki(
    model: nn.Module,
    held: Held,
    *,
    bins: Literal["quantiles", "normal"] = "quantiles",
    gain: Annotated[float, Field(gt=0)] = 1.0,
    unsure: bool = True,
    closing: bool = False,
    factor: Annotated[float, Field(gt=0)] = 1.0,
    step: Annotated[int, Field(ge=0)] = 0,
) -> Written:
    """Send each client kernels of its own that copy a sample, all others zero, and sort samples into bins.

    The network begins with a convolution that has a group of kernels for each client, one kernel for each
    channel of a sample. In the i-th client's model only the i-th group copies the sample. Of the dense layer
    behind the convolution, only the columns that read this group then get a gradient. In a sum over clients
    every block of columns thus belongs to one client. The dense layer sorts samples into bins by their mean,
    as in Robbing the Fed. The expected share of samples that are read exactly is that of the largest client's
    batch.

    With `closing` the server receives weights after several local steps in place of gradients. A neuron is
    then open only between two cuts: its row and bias are divided by the distance of the cuts, and it is cut
    off at 1. So a sample changes only the row of its own bin. The kernels are multiplied by `factor` and the
    rows are divided by it. What the neurons compute stays the same, but relative to its length a step moves a
    row by `factor`² times as much. With a large factor a bin closes as soon as one mini-batch has opened it.
    The row keeps what this mini-batch wrote, however many steps and epochs follow.

    The convolution of three kernels for each client is from both papers. Hard tanh, distances and factor are
    LOKI's, against FedAvg. This project adds that a large factor closes bins, and the expected share.

    bins: as in `robbing_the_fed`.
    gain: as in `robbing_the_fed`; with `closing` there is no gain.
    unsure: as in `robbing_the_fed`.
    closing: whether each neuron has a bin of its own, which closes at the first step.
    factor: what the copying kernels are multiplied by, with `closing`.
    step: samples of a client's mini-batch, with `closing`; 0 means that the mini-batch has all of the
    client's samples.

    Raises UserError if fewer than two clients take part, or if the server has no samples. Raises UserError if
    the network does not begin with such a convolution, whose padding keeps the size, in front of two dense
    layers. With `closing`, raises UserError if nothing cuts the neurons off at 0 and 1.
    """
    clients = len(held.clients)
    if clients < 2:
        raise UserError(
            "malicious: loki keeps the clients of a sum apart (give the federation two clients or more)"
        )
    if held.samples is None:
        raise UserError("malicious: loki fits its bins to samples (give the server auxiliary ones)")
    name, convolution, layer = _places(model, held.shape, clients)
    if closing and not any(
        isinstance(m, nn.Hardtanh) and (m.min_val, m.max_val) == (0, 1) for m in model.modules()
    ):
        raise UserError(
            "malicious: loki: closing bins need neurons that are cut off at 0 and 1 (give the victim "
            "bounded: true)"
        )
    later = reader(model, layer, "loki")
    means, values = held.samples.flatten(1).double().mean(1), math.prod(held.shape)
    each = taps(convolution.weight.shape, clients)
    expected = alone(layer.out_features, max(held.clients))
    write_bins(layer, later, means, bins, gain, values)
    if closing:
        _part(layer, means, bins, factor * values)
        each *= factor
        expected = first_alone(layer.out_features, max(held.clients), step)
    if unsure:
        make_unsure(model)
    # In the model that all clients would share no kernel copies a sample, so that a client without a group
    # gives nothing away.
    convolution.weight.zero_()
    return Written({"exact": expected}, {f"{name}.weight": each})


def first_alone(bins: int, samples: int, step: int) -> float:
    """Return the probability that a sample is alone in its bin in the first mini-batch that opens the bin."""
    sizes = [min(step, samples - begin) for begin in range(0, samples, step)] if step else [samples]
    before, found = 0, 0.0
    for size in sizes:
        # Neither a sample of an earlier mini-batch nor one of its own mini-batch may share its bin.
        found += size / samples * alone(bins, before + size)
        before += size
    return found


def _part(layer: nn.Linear, means: Tensor, bins: str, scale: float) -> None:
    """Give each neuron a bin of its own, so that its output goes from 0 to 1 between two cuts."""
    cuts = cuts_at(torch.linspace(0, 1, layer.out_features + 1, dtype=torch.float64), means, bins)
    # The mean of a sample lies between 0 and 1.
    cuts[0], cuts[-1] = 0, 1
    apart = cuts.diff().clamp_min(NARROW)
    layer.weight.copy_((1 / (scale * apart))[:, None].expand_as(layer.weight))
    layer.bias.copy_(-cuts[:-1] / apart)


def taps(shape: torch.Size, clients: int) -> Tensor:
    """Return the convolution's weights for each client, [clients, *shape]."""
    _, channels, rows, columns = shape
    each = torch.zeros(clients, *shape)
    for client in range(clients):
        for channel in range(channels):
            each[client, client * channels + channel, channel, rows // 2, columns // 2] = 1
    return each


def _places(model: nn.Module, shape: tuple[int, int, int], clients: int) -> tuple[str, nn.Conv2d, nn.Linear]:
    """Return the first convolution with its name, and the dense layer that reads it."""
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
