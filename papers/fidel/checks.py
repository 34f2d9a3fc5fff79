"""Checks of Fidel that no expression can make: its networks layer by layer, and how the run was set up."""

import re
from collections.abc import Mapping
from typing import Any

from leakbench.metrics.pearson import THRESHOLD
from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.quantity import Measured, exactly

FCNN = "network.victims/mnist/fcnn-relu"
CNN = "network.victims/mnist/cnn-relu"
MNIST = "network.generators/mnist/cnn-relu/fidel-mnist"
CIFAR10 = "network.generators/cifar10/cnn-relu/fidel-cifar10"
# Printed table → the project's network that stands for it.
NETWORKS = {"table-1": FCNN, "table-2": CNN, "table-3": MNIST, "table-4": CIFAR10}
CELLS = ("layer", "size", "stride", "padding", "activation")
Row = Mapping[str, str]


def architecture(evidence: Evidence, row: Row) -> str:
    """Return a layer of the project's network, or a setting of its training, in the words of the tables."""
    network = NETWORKS[row["table"]]
    if row["layer"].startswith("hyper:"):
        return _setting(evidence.fact(f"{network}.training"), row["layer"], network in (FCNN, CNN))
    layers = _layers(evidence, network)
    place = int(row["layer_index"])
    layer = layers[place] if place < len(layers) else {}
    return "; ".join(f"{key}={layer[key]}" for key in CELLS if layer.get(key))


def _setting(training: Mapping[str, Any], printed: str, victim: bool) -> str:
    losses = {True: "categorical crossentropy", False: "mean squared error"}
    optimiser = {"sgd": "SGD"}.get(training["optimiser"], training["optimiser"].capitalize())
    ours = {"learning_rate": training["lr"], "loss": losses[victim], "optimizer": optimiser}
    # A parameter that the project's optimiser does not have is a difference too.
    return str({**training, **training["options"], **ours}.get(printed.removeprefix("hyper:"), "none"))


def _layers(evidence: Evidence, network: str) -> list[dict[str, str]]:
    """Return the layers of a trained network as the tables count them: the input first, softmax last."""
    layers = [{"layer": "input"}, *(dict(layer) for layer in evidence.fact(f"{network}.layers"))]
    if layers[1]["layer"] == "flatten":
        # A fully connected network reads its images flat; the paper does not count that as a layer.
        del layers[1]
    for layer in layers:
        if layer["layer"].startswith(("dense", "conv")):
            layer.setdefault("activation", "none")
    if network in (FCNN, CNN):
        # The softmax is a part of the cross-entropy with which the network was trained.
        layers[-1]["activation"] = "softmax"
    else:
        channels, rows, columns = evidence.fact(f"{network}.features")
        layers[0]["size"] = f"{rows},{columns},{channels}"
    return layers


def channels(evidence: Evidence, row: Row) -> str:
    """Return the number of partial reconstructions of a CNN.

    It is the number of filters of the convolution times the number of neurons of the first dense layer.
    """
    layers = _layers(evidence, CNN)
    sizes = {layer["layer"]: layer["size"] for layer in reversed(layers) if "size" in layer}
    return str(int(re.findall(r"\d+", sizes["conv2d"])[-1]) * int(sizes["dense"]))


def padded_side(evidence: Evidence, row: Row) -> Measured:
    """Return the side in pixels of what the CIFAR-10 generator would make if it were padded as printed.

    The padding of its third transposed convolution differs from the printed one.
    """
    layers = _layers(evidence, CIFAR10)
    layers[4]["padding"] = "same"
    side = int(layers[0]["size"].split(",")[0])
    for layer in (layer for layer in layers if layer["layer"].startswith("conv")):
        kernel, stride = (int(layer[key].split(",")[0]) for key in ("size", "stride"))
        # These are Keras' rules. Every convolution here that is not transposed has stride 1.
        lost = 0 if layer["padding"] == "same" else kernel - stride
        side = side * stride + lost if layer["layer"] == "conv2d transpose" else side - lost
    return exactly(side)


def threshold(evidence: Evidence, row: Row) -> str:
    """Return the correlation from which on a sample counts as fully revealed."""
    return str(THRESHOLD)
