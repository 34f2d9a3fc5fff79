"""Fidel's generator for MNIST, Table III."""

from torch import nn

from leakbench.networks.layers import glorot, sequential

# Its size (`catalogue.costs.Network`), by what its training was measured to take.
COST = {"operations": "80 * area", "weights": 5, "layers": 8}


def fidel_mnist(features: tuple[int, ...], shape: tuple[int, int, int]) -> nn.Module:
    """Return Fidel's generator: two convolutions, each behind an upsampling, and a dense layer.

    Up ×2 – conv 5×5×20 ReLU – up ×2 – conv 5×5×10 stride 2 ReLU – dense rows·columns sigmoid. Convolutions
    are valid: 13 → 26 → 22 → 44 → 20, so the flattened size is 4,000. Source: Fidel, Table III.
    """
    rows, columns, channels = shape
    side = ((features[1] * 2 - 4) * 2 - 5) // 2 + 1
    return glorot(
        sequential(
            up1=nn.Upsample(scale_factor=2),
            conv1=nn.Conv2d(features[0], 20, 5),
            activation1=nn.ReLU(),
            up2=nn.Upsample(scale_factor=2),
            conv2=nn.Conv2d(20, 10, 5, stride=2),
            activation2=nn.ReLU(),
            flatten=nn.Flatten(),
            dense=nn.Linear(10 * side * side, rows * columns * channels),
            activation3=nn.Sigmoid(),
            reshape=nn.Unflatten(1, (channels, rows, columns)),
        )
    )
