"""The LeNet of GRNN: two convolutions and three dense layers, all with sigmoids."""

from torch import nn

from leakbench.networks.victims.lenet5 import lenet5_layers

COST = {"operations": "1.5 * area", "weights": 0.1, "layers": 4}


def lenet_grnn(shape: tuple[int, int, int], classes: int, *, bound: float = 0.5) -> nn.Module:
    """Return the LeNet of GRNN, with a sigmoid before each pool and after each dense layer except the last.

    Conv 5×5×6 – max-pool – conv 5×5×16 – max-pool – dense 120, 84, classes. For 32×32 images the first dense
    layer reads 400 values. Source: GRNN's code.

    bound: all weights and biases are uniform in [-bound, bound].
    """
    network = lenet5_layers(shape, classes, nn.Sigmoid)
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    return network
