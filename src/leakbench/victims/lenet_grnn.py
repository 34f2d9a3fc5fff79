"""The LeNet of GRNN: two convolutions and three dense layers, all with sigmoids."""

from torch import nn

from leakbench.victims.layers import sequential


def lenet_grnn(shape: tuple[int, int, int], classes: int, *, bound: float = 0.5) -> nn.Module:
    """Conv 5×5×6 – max-pool – conv 5×5×16 – max-pool – dense 120, 84, classes; sigmoid before each pool and
    after each dense.

    All weights and biases are uniform in [-bound, bound]. For 32×32 images the first dense layer reads 400
    values. Source: GRNN's code.
    """
    rows, columns, channels = shape
    flat = 16 * ((rows - 12) // 4) * ((columns - 12) // 4)
    network = sequential(
        conv1=nn.Conv2d(channels, 6, 5),
        activation1=nn.Sigmoid(),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, 16, 5),
        activation2=nn.Sigmoid(),
        pool2=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        dense1=nn.Linear(flat, 120),
        activation3=nn.Sigmoid(),
        dense2=nn.Linear(120, 84),
        activation4=nn.Sigmoid(),
        dense3=nn.Linear(84, classes),
    )
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    return network
