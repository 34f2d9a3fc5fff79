"""What a client sends of its first and its last dense layer, and what an attack can take from them."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.attacks.exact.opened import opened
from leakbench.attacks.matching.received import as_gradient, local_steps, noise_images
from leakbench.base.errors import Unfit
from leakbench.networks.layers import first_dense, last_dense, normalisation
from leakbench.observations.observation import Observation

# The largest distance of two gradients that count as one, as a share of the norm of either.
SAME = 1e-2


def short(layer: str) -> str:
    """Return the name that a layer has in the client's own network."""
    return layer.removeprefix("network.")


def unsent(observation: Observation, layer: nn.Module, name: str, part: str) -> str:
    """Return in words why a tensor of a layer is not in the update; empty if it is, or if there is none.

    observation: what the server sees.
    layer: the layer.
    name: the name of the layer.
    part: the name of the tensor in the layer, such as `weight`.
    """
    if getattr(layer, part) is None or f"{name}.{part}" in observation.updates:
        return ""
    if part in dict(layer.named_buffers(recurse=False)):
        return "is not trained and not sent"
    if part in dict(layer.named_parameters(recurse=False)):
        return "is shared with another layer and sent under that layer's name"
    return "is computed from other tensors"


def first_unsent(observation: Observation, layer: nn.Module, name: str, *parts: str) -> str:
    """Return in words which tensor of the first dense layer is not sent, and why; empty if all are.

    observation: what the server sees.
    layer: the layer.
    name: the name of the layer.
    parts: the names of the tensors in the layer.
    """
    why = {part: unsent(observation, layer, name, part) for part in parts}
    missing = next((part for part in parts if why[part]), None)
    return "" if missing is None else f"the {missing} of the first dense layer, {short(name)}, {why[missing]}"


def readable(observation: Observation, needs_bias: bool) -> Observation:
    """Return an observation as an attack on the first dense layer takes it.

    A bias that is not trained tells nothing of the scale of a record. An attack that can do without that
    scale is given a bias that did not change.

    observation: what the server sees.
    needs_bias: whether the attack needs the scale.

    Raises Unfit if the network has no such layer, or if the layer is not sent.
    """
    model = observation.model()
    rows, columns, channels = observation.network["shape"]
    name, _ = first_dense(model, noise_images((channels, rows, columns))[:2])
    layer = model.get_submodule(name)
    if why := first_unsent(observation, layer, name, "weight", *(["bias"] if needs_bias else [])):
        raise Unfit(f"attack: {why}")
    if "bias" not in dict(layer.named_buffers(recurse=False)):
        return observation
    still = np.zeros(observation.updates[f"{name}.weight"].shape[:-1], np.float32)
    return replace(observation, updates={**observation.updates, f"{name}.bias": still})


@torch.no_grad()
def outputs(model: nn.Module, layer: nn.Module, images: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return what a network makes of images, and what one of its layers returns at each use.

    model: the network.
    layer: the layer.
    images: [n, channels, rows, columns].
    """
    returned: list[Tensor] = []
    hook = layer.register_forward_hook(lambda _, inputs, output: returned.append(output))
    try:
        return model(images), returned
    finally:
        hook.remove()


def uncountable(observation: Observation) -> str:
    """Return in words why no label counts follow from the last dense layer; empty if they follow.

    observation: what the server sees.
    """
    model = observation.model()
    rows, columns, channels = observation.network["shape"]
    try:
        name = last_dense(model)
    except Unfit:
        return "no dense layer ends the network"
    layer = model.get_submodule(name)
    if why := unsent(observation, layer, name, "weight"):
        return f"the weight of the last dense layer, {short(name)}, {why}"
    scores, returned = outputs(model, layer, noise_images((channels, rows, columns))[:2])
    alike = [each for each in returned if each.shape == scores.shape or each.shape == scores[:, 1:].shape]
    if len(returned) != 1 or not alike:
        return f"the last dense layer, {short(name)}, does not return the scores of the classes"
    return ""


def one_pass(
    model: nn.Module, layer: nn.Linear, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return what `opened` does of a first dense layer, if its gradient is that of one pass of the records.

    Return None if the layer is used twice, or if another layer shares its weights: a neuron that is open for
    one record alone then holds more than that record.

    model: the network.
    layer: its first dense layer, which reads the records themselves.
    images: [n, channels, rows, columns].
    labels: [n].
    """
    if len(outputs(model, layer, images)[1]) != 1:
        return None
    output, slope = opened(model, layer, images, labels)
    own = [value for value in (layer.weight, layer.bias) if value is not None]
    with torch.enable_grad():
        loss = cross_entropy(model(images), labels, reduction="sum")
        found = torch.autograd.grad(loss, own, materialize_grads=True)
    expected = [slope.T @ _read(model, images), slope.sum(0)]
    return (output, slope) if all(map(_same, found, expected[: len(own)])) else None


def sent_alone(observation: Observation, name: str, images: Tensor, slope: Tensor) -> bool:
    """Return whether a client sent of a first dense layer what one step on these records causes.

    It did not if the client took several steps, or if it dropped units that the network in evaluation keeps.

    observation: what the server sees.
    name: the name of the layer.
    images: [n, channels, rows, columns].
    slope: [n, neurons], the gradient of the summed loss by the output of the layer.
    """
    if len(local_steps(observation, len(images))) != 1:
        return False
    sent = as_gradient(observation, observation.update(f"{name}.weight"), len(images))[0, 0]
    return _same(sent, slope.T @ _read(observation.model(), images) / len(images))


@torch.no_grad()
def hides_records(model: nn.Module, layer: nn.Module, images: Tensor, output: Tensor) -> bool:
    """Return whether the network behind a layer sees of the records only what the layer makes of them.

    A connection that leads around the layer shows the rest of the network more.

    model: the network.
    layer: one of its layers.
    images: [n, channels, rows, columns].
    output: [n, neurons], what the layer makes of the images.
    """
    other = noise_images((images.shape[1], images.shape[2], images.shape[3]))[:1].expand_as(images)
    hook = layer.register_forward_hook(lambda *_: output.clone())
    try:
        through = model(other)
    finally:
        hook.remove()
    return _same(through, model(images))


def _read(model: nn.Module, images: Tensor) -> Tensor:
    """Return what a first dense layer reads of the records: [n, inputs]."""
    mean, deviation = normalisation(model, images.shape[1])
    return ((images - mean) / deviation).flatten(1)


def _same(found: Tensor, expected: Tensor) -> bool:
    return float((found - expected).norm()) <= SAME * float(expected.norm())
