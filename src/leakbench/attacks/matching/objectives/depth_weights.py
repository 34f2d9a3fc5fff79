"""DLF's weights of layers: each layer counts less than the one before it, and updates count as gradients."""

import math
from typing import Annotated

from pydantic import Field

from leakbench.attacks.matching.received import local_steps
from leakbench.attacks.matching.terms import Weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors


def depth_weights(*, factor: Annotated[float, Field(gt=0)] = 1.0) -> Weights:
    """Return weights of the parameters in squared distances: exp(−l) for the layer number l, times a scale.

    Layers are those that have parameters of their own, in the order of the network from 0. The scale turns a
    squared distance of updates into one of sums of gradients, by dividing each update by minus the learning
    rate. It also divides by the number of mini-batches in the unknown images. The rule is that of DLF's code.
    There the factor moves from one value to another over the first half of the run, and then stays; here it
    is one number.

    factor: the factor of all weights, above 0. The weights of the priors are relative to it.
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
    """Return the factor that makes a squared distance of a group's `observed` one of sums of gradients."""
    observation = group.observation
    if observation.kind == "gradient":
        return 1.0
    steps = len(local_steps(observation, group.samples))
    batches = group.epochs * steps / observation.local["epochs"]
    # `Group.observed` is the update itself where steps are simulated, and otherwise its mean gradient.
    sums = float(observation.local["lr"]) ** -2 if group.steps else float(steps) ** 2
    return sums / batches
