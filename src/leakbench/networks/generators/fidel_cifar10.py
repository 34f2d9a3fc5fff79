"""Fidel's generator for CIFAR-10, Table IV."""

from typing import Literal

from torch import nn

from leakbench.networks.layers import glorot, sequential

# Its size (`catalogue.costs.Network`), by what its training was measured to take.
COST = {"operations": "130 * area", "weights": 5, "layers": 8}


def fidel_cifar10(
    features: tuple[int, ...], shape: tuple[int, int, int], *, third: Literal["valid", "same"] = "valid"
) -> nn.Module:
    """Return Fidel's generator: three transposed convolutions and two convolutions.

    ConvT 5×5×128 – ConvT 5×5×64 stride 2 – batch norm – ConvT 5×5×64 – conv 3×3×32 valid tanh – conv 3×3×3
    sigmoid. Sides are 15 → 15 → 30 → 34 → 32. Table IV prints 'same' for the third transposed convolution,
    which yields 28×28. Source: Fidel, Table IV; 'valid' is from the demonstration code.

    third: the padding of the third transposed convolution; 'same' serves only to show what Table IV yields.
    """
    return glorot(
        sequential(
            convt1=nn.ConvTranspose2d(features[0], 128, 5, padding=2),
            activation1=nn.ReLU(),
            convt2=nn.ConvTranspose2d(128, 64, 5, stride=2, padding=2, output_padding=1),
            activation2=nn.ReLU(),
            norm=nn.BatchNorm2d(64),
            convt3=nn.ConvTranspose2d(64, 64, 5, padding=0 if third == "valid" else 2),
            activation3=nn.ReLU(),
            conv4=nn.Conv2d(64, 32, 3),
            activation4=nn.Tanh(),
            conv5=nn.Conv2d(32, shape[2], 3, padding=1),
            activation5=nn.Sigmoid(),
        )
    )
