"""DLF's weights of layers: each layer counts less than the one before it, and updates count as gradients."""

import math
from typing import Annotated

from pydantic import Field

from leakbench.matching.received import local_steps
from leakbench.matching.terms import Weights
from leakbench.matching.trials import Group
from leakbench.tensors import Tensors


def depth_weights(*, factor: Annotated[float, Field(gt=0)] = 1.0) -> Weights:
    """Return weights of the parameters in squared distances: exp(−l) for the layer number l, times a scale.

    factor: of all weights, above 0; beside it stand the weights of the priors. Layers are those that have
    parameters of their own, in the order of the network from 0. The scale makes a squared distance one of
    sums of gradients, which an update is when it is divided by minus the learning rate, and divides it by the
    number of mini-batches in the unknown images. Source: DLF's code. There the factor moves from one value to
    another over the first half of the run, and stays; here it is one number.
    """
    return Weights(lambda group: lambda observed: _weights(group, observed, factor))


def _weights(group: Group, observed: Tensors, factor: float) -> Tensors:
    scale = factor * scale_of(group)
    trials = next(iter(observed.values()))
    found = {name: trials.new_full((len(trials),), scale) for name in observed}
    layers = dict.fromkeys(name.rpartition(".")[0] for name, _ in group.model.named_parameters())
    for number, layer in enumerate(layers):
        for name, _ in group.model.get_submodule(layer).named_parameters(recurse=False):
            found[f"{layer}.{name}" if layer else name] *= math.exp(-number)
    return found


def scale_of(group: Group) -> float:
    """Return what makes a squared distance of a group's `observed` one of sums of gradients, for each
    mini-batch."""
    observation = group.observation
    if observation.kind == "gradient":
        return 1.0
    steps = len(local_steps(observation, group.samples))
    batches = group.epochs * steps / observation.local["epochs"]
    # What is observed is the update itself where steps are simulated, and else its mean gradient.
    sums = float(observation.local["lr"]) ** -2 if group.steps else float(steps) ** 2
    return sums / batches
