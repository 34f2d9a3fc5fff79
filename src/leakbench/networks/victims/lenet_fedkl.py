"""The second LeNet of FedKL: three convolutions and two dense layers with sigmoids, and two batch norms."""

from typing import Literal

from torch import nn

from leakbench.networks.layers import sequential

COST = {"operations": "1.5 * area", "weights": 0.1, "layers": 4}


def lenet_fedkl(
    shape: tuple[int, int, int], classes: int, *, statistics: Literal["running", "batch"] = "running"
) -> nn.Module:
    """Return the second LeNet of FedKL, as torch initialises it.

    Conv 5×5×6 – max-pool – conv 5×5×16 – max-pool – conv 5×5×120 – dense 84, classes. A sigmoid comes before
    each pool and each dense layer, and batch norm before the first two sigmoids. From 32×32 images the third
    convolution makes one pixel. Source: FedKL's code, its test of GRNN.

    statistics: batch norm normalises by its own `running` statistics or by those of each `batch`.

    Raises ValueError for images smaller than 32×32.
    """
    rows, columns, channels = shape
    high, long = ((size - 12) // 4 - 4 for size in (rows, columns))
    if min(high, long) < 1:
        raise ValueError(f"lenet-fedkl: {rows}×{columns} images are smaller than 32×32")
    own = statistics == "running"
    return sequential(
        conv1=nn.Conv2d(channels, 6, 5),
        norm1=nn.BatchNorm2d(6, track_running_stats=own),
        activation1=nn.Sigmoid(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5),
        norm2=nn.BatchNorm2d(16, track_running_stats=own),
        activation2=nn.Sigmoid(),
        pool2=nn.MaxPool2d(2),
        conv3=nn.Conv2d(16, 120, 5),
        activation3=nn.Sigmoid(),
        flatten=nn.Flatten(),
        dense1=nn.Linear(120 * high * long, 84),
        activation4=nn.Sigmoid(),
        dense2=nn.Linear(84, classes),
    )
