"""The LeNet of DLG: three convolutions with sigmoids."""

from typing import Literal

from torch import nn

from leakbench.victims.layers import sequential


def lenet_dlg(
    shape: tuple[int, int, int],
    classes: int,
    *,
    bound: float = 0.5,
    norm: Literal["none", "batch"] = "none",
    statistics: Literal["running", "batch"] = "running",
) -> nn.Module:
    """Conv 5×5×12 stride 2 – the same – conv 5×5×12 – dense classes; sigmoid after each convolution.

    All weights and biases are uniform in [-bound, bound]. For 32×32 images the dense layer reads 768 values.
    `norm`: a batch norm behind the first convolution, by statistics of its own or (`statistics`) each
    batch's. Source: DLG's code; with batch norm FedKL's.
    """
    rows, columns, channels = shape
    flat = 12 * -(-rows // 4) * -(-columns // 4)
    network = sequential(
        conv1=nn.Conv2d(channels, 12, 5, 2, 2),
        norm1=nn.BatchNorm2d(12, track_running_stats=statistics == "running"),
        activation1=nn.Sigmoid(),
        conv2=nn.Conv2d(12, 12, 5, 2, 2),
        activation2=nn.Sigmoid(),
        conv3=nn.Conv2d(12, 12, 5, 1, 2),
        activation3=nn.Sigmoid(),
        flatten=nn.Flatten(),
        dense=nn.Linear(flat, classes),
    )
    if norm == "none":
        del network.norm1
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    return network
