"""The LeNet of DLG: three convolutions with sigmoids."""

from typing import Literal

from torch import nn

from leakbench.networks.layers import sequential

COST = {"operations": "1.5 * area", "weights": 0.1, "layers": 4}


def lenet_dlg(
    shape: tuple[int, int, int],
    classes: int,
    *,
    bound: float = 0.5,
    norm: Literal["none", "batch"] = "none",
    statistics: Literal["running", "batch"] = "running",
) -> nn.Module:
    """Return the LeNet of DLG, with a sigmoid after each convolution.

    Conv 5×5×12 stride 2 – the same – conv 5×5×12 – dense classes. For 32×32 images the dense layer reads 768
    values. Source: DLG's code; with batch norm FedKL's.

    bound: all weights and biases are uniform in [-bound, bound].
    norm: `batch` adds a batch norm behind the first convolution.
    statistics: the batch norm normalises by its own `running` statistics or by those of each `batch`.
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
