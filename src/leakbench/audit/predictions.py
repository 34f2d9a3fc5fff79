"""What is known of a round before any attack runs: closed forms, and the alarms of a client's detectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.modules.batchnorm import _BatchNorm

from leakbench.attacks.exact.opened import opened
from leakbench.attacks.matching.received import as_gradient, local_steps, noise_images
from leakbench.audit.client import Truth
from leakbench.audit.findings import in_all
from leakbench.audit.network import reason
from leakbench.base.errors import Unfit
from leakbench.networks.layers import first_dense, last_dense, normalisation
from leakbench.observations.observation import Observation

# The largest distance of two gradients that count as one, as a share of the norm of either.
SAME = 1e-2


def short(layer: str) -> str:
    return layer.removeprefix("network.")


def unsent(observation: Observation, layer: nn.Module, name: str, part: str) -> str:
    """Return in words why a tensor of a layer is not in the update; empty if it is, or if there is none."""
    if getattr(layer, part) is None or f"{name}.{part}" in observation.updates:
        return ""
    if part in dict(layer.named_buffers(recurse=False)):
        return "is not trained and not sent"
    if part in dict(layer.named_parameters(recurse=False)):
        return "is shared with another layer and sent under that layer's name"
    return "is computed from other tensors"


def _check_sent(observation: Observation, layer: nn.Module, name: str, part: str) -> None:
    if why := unsent(observation, layer, name, part):
        raise Unfit(f"the {part} of the first dense layer, {short(name)}, {why}")


def noise(observation: Observation) -> Tensor:
    """Return noise in the form of an observation's records."""
    rows, columns, channels = observation.network["shape"]
    return noise_images((channels, rows, columns))


def readable(observation: Observation, needs_bias: bool) -> Observation:
    """Return an observation as an attack on the first dense layer takes it."""
    # A bias that is not trained tells nothing of the scale of a record. An attack that can do without that
    # scale is given a bias that did not change. Raises Unfit if there is no such layer, or if it is not sent.
    model = observation.model()
    name, _ = first_dense(model, noise(observation)[:2])
    layer = model.get_submodule(name)
    _check_sent(observation, layer, name, "weight")
    if needs_bias:
        _check_sent(observation, layer, name, "bias")
    if "bias" not in dict(layer.named_buffers(recurse=False)):
        return observation
    still = np.zeros(observation.updates[f"{name}.weight"].shape[:-1], np.float32)
    return replace(observation, updates={**observation.updates, f"{name}.bias": still})


@torch.no_grad()
def outputs(model: nn.Module, layer: nn.Module, images: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Return what a network makes of images, and what one of its layers returns at each use."""
    returned: list[Tensor] = []
    with layer.register_forward_hook(lambda _, inputs, output: returned.append(output)):
        return model(images), returned


def uncountable(observation: Observation) -> str:
    """Return in words why no label counts follow from the last dense layer; empty if they follow."""
    model = observation.model()
    try:
        name = last_dense(model)
    except Unfit:
        return "no dense layer ends the network"
    layer = model.get_submodule(name)
    if why := unsent(observation, layer, name, "weight"):
        return f"the weight of the last dense layer, {short(name)}, {why}"
    scores, returned = outputs(model, layer, noise(observation)[:2])
    alike = [each for each in returned if each.shape == scores.shape or each.shape == scores[:, 1:].shape]
    if len(returned) != 1 or not alike:
        return f"the last dense layer, {short(name)}, does not return the scores of the classes"
    return ""


def one_pass(
    model: nn.Module, layer: nn.Linear, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Return what `opened` does of a first dense layer if its gradient is that of one pass of the records."""
    # It is not if the layer is used twice, or if another layer shares its weights: a neuron that is open for
    # one record alone then holds more than that record.
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
    """Return whether a client sent of a first dense layer what one step on these records causes."""
    # It did not if it took several steps, or if it dropped units that the network in evaluation keeps.
    # `slope` is the gradient of the summed loss by the output of the layer.
    if len(local_steps(observation, len(images))) != 1:
        return False
    sent = as_gradient(observation, observation.update(f"{name}.weight"), len(images))[0, 0]
    return _same(sent, slope.T @ _read(observation.model(), images) / len(images))


@torch.no_grad()
def hides_records(model: nn.Module, layer: nn.Module, images: Tensor, output: Tensor) -> bool:
    """Return whether the network behind a layer sees of the records only the layer's `output`."""
    # A connection that leads around the layer shows the rest of the network more.
    channels, rows, columns = images.shape[1:]
    other = noise_images((channels, rows, columns))[:1].expand_as(images)
    with layer.register_forward_hook(lambda *_: output.clone()):
        through = model(other)
    return _same(through, model(images))


def second_derivatives(model: nn.Module, inputs: Tensor) -> float:
    """Return by what share second derivatives are off, of a network with backward passes of its own; or 0."""
    scores, nodes = model(inputs), set[Any]()
    waiting = [scores.grad_fn]
    while waiting:
        if (node := waiting.pop()) is not None and node not in nodes:
            nodes.add(node)
            waiting += [each for each, _ in node.next_functions]
    if not any(isinstance(node, torch.autograd.function.BackwardCFunction) for node in nodes):
        return 0.0
    exact = deepcopy(model).double()
    parameters = list(exact.parameters())
    rng = torch.Generator().manual_seed(0)
    along = [torch.randn(p.shape, generator=rng, dtype=p.dtype) for p in parameters]
    step = 1e-7 * torch.randn(inputs.shape, generator=rng, dtype=torch.float64)

    def slope(x: Tensor) -> Tensor:
        loss = cross_entropy(exact(x), torch.zeros(len(x), dtype=torch.long))
        found = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        return torch.stack([(value * a).sum() for value, a in zip(found, along, strict=True)]).sum()

    x = inputs.double().requires_grad_()
    try:
        (claimed,) = torch.autograd.grad(slope(x), x)
    except RuntimeError:
        # A search says so itself.
        return 0.0
    true = float((slope(x + step) - slope(x - step)).detach()) / 2
    told = float((claimed * step).sum())
    off = abs(true - told) / max(abs(true), abs(told), 1e-300)
    return off if off > SAME else 0.0


def _read(model: nn.Module, images: Tensor) -> Tensor:
    mean, deviation = normalisation(model, images.shape[1])
    return ((images - mean) / deviation).flatten(1)


def _same(found: Tensor, expected: Tensor) -> bool:
    return float((found - expected).norm()) <= SAME * float(expected.norm())


@dataclass
class Look:
    # Question → answer; attack → how many records it will read, for attacks with a closed form alone.
    facts: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, int] = field(default_factory=dict)
    # The first dense layer, whether it reads the records themselves, and how many of its neurons are open for
    # 0, 1, 2, … records.
    layer: str = ""
    pixels: bool = False
    degrees: list[int] = field(default_factory=list)
    # Of each record, whether a neuron is open for it alone.
    alone: list[bool] = field(default_factory=list)


def unmoved(observation: Observation) -> str:
    """Return in words that most tensors of an update are zero, or "" if they are not."""
    still = [not update.any() for update in observation.updates.values()]
    told = (
        f"{sum(still)} of {len(still)} tensors have an update of zero, which tells nothing (a last layer "
        "that begins at zero lets no gradient pass)"
    )
    return told if sum(still) > len(still) // 2 else ""


def look(observation: Observation, truth: Truth | None) -> Look:
    """Return what closed forms say of the update of one client."""
    # Less can be said without the private records, and nothing is predicted for a loss that is not plain.
    model = observation.model()
    found = Look()
    (records,) = observation.clients
    with _noting(found, "first layer"):
        _of_first(found, model, observation)
    with _noting(found, "prediction"):
        if found.layer:
            _of_layer(found, model, observation, truth)
    with _noting(found, "labels"):
        found.facts["labels"] = _of_labels(model, observation)
    norms = [n for n in observation.weights if n.endswith("running_mean")]
    of_batch = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is None]
    if norms:
        found.facts["batch norm"] = (
            f"{len(of_batch)} layers send the mean and variance of the batch's features"
            if of_batch
            else f"{len(norms)} layers go by what they were sent, and send nothing of the batch"
        )
    if still := unmoved(observation):
        found.facts["nothing sent"] = still
    with _noting(found, "second derivatives"):
        if not observation.dropout and (off := second_derivatives(model, noise(observation)[:2])):
            found.facts["second derivatives"] = (
                f"those of the network's own backward passes are off by {off:.0%}: searches go by them, and "
                "may find less than is there"
            )
    bins = max([1, *(m.out_features for m in model.modules() if isinstance(m, nn.Linear))])
    trap = (1 - 1 / bins) ** (records - 1)
    found.facts["an active server"] = (
        f"one that may choose the weights can isolate {trap:.0%} of a batch of this size "
        f"(bins of {bins} neurons, expected)"
    )
    return found


@contextmanager
def _noting(found: Look, question: str) -> Iterator[None]:
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
        found.facts[question] = f"none: {reason(problem)}"


def _of_first(found: Look, model: nn.Module, observation: Observation) -> None:
    inputs = noise(observation)
    try:
        found.layer, read = first_dense(model, inputs)
    except Unfit:
        found.facts["first layer"] = (
            "no dense layer is seen to read a flattened record: nothing can be divided out"
        )
        return
    mean, deviation = normalisation(model, inputs.shape[1])
    found.pixels = read.shape == inputs.shape and torch.allclose(
        read, (inputs - mean) / deviation, rtol=1e-4, atol=1e-5
    )


def _of_layer(found: Look, model: nn.Module, observation: Observation, truth: Truth | None) -> None:
    layer: nn.Linear = model.get_submodule(found.layer)  # type: ignore[assignment]
    bias = layer.bias is not None
    reads = "the records themselves" if found.pixels else "features of the records"
    found.facts["first layer"] = (
        f"{short(found.layer)} is dense with {layer.out_features} neurons, {'has' if bias else 'has no'} "
        f"bias and reads {reads}"
    )
    _check_sent(observation, layer, found.layer, "weight")
    (records,) = observation.clients
    least = min(layer.out_features, layer.in_features)
    found.facts["rank"] = (
        f"the update's span has at most {records} dimensions of {least}: it tells members from others"
        if records < least
        else f"{records} records fill all {least} dimensions: the update's span tells nothing"
    )
    # Neurons of a later layer give away features instead of records.
    if truth is not None and found.pixels:
        _of_neurons(found, model, layer, observation, truth)


def _of_neurons(
    found: Look, model: nn.Module, layer: nn.Linear, observation: Observation, truth: Truth
) -> None:
    """Count the neurons that are open for each record, and predict where a closed form holds."""
    _check_sent(observation, layer, found.layer, "bias")
    records = len(truth.labels)
    # Which neurons answer hardly depends on the label, so any will do for records that have none.
    passed = one_pass(model, layer, truth.images, truth.labels.clamp_min(0))
    if passed is None:
        raise Unfit(f"{short(found.layer)} is used more than once, or shares its weights with another layer")
    z, slope = passed
    answers = slope != 0
    relu = bool((~answers).any() and not answers[z <= 0].any())
    found.facts["activation"] = "closes neurons (ReLU)" if relu else "every neuron answers to every record"
    degrees = answers.sum(0)
    found.degrees = torch.bincount(degrees, minlength=records + 1).tolist()
    found.alone = answers[:, degrees == 1].any(1).tolist()
    alone = sum(found.alone)
    found.facts["neurons open for one record alone"] = (
        f"{found.degrees[1]}, which give away {alone} {in_all(records)}"
    )
    # Several steps open other neurons, dropout closes some, batch norm ties records together, and a low
    # precision rounds what the closed forms divide.
    odd = observation.dropout or observation.mode == "train" or "precision" in observation.local
    still = observation.plain and not odd
    if layer.bias is not None and still and sent_alone(observation, found.layer, truth.images, slope):
        found.predicted["fidel"] = alone
        if relu and hides_records(model, layer, truth.images, z):
            found.predicted["peel"] = replay(answers)


def replay(opened: Tensor) -> int:
    """Return how many records peeling reads, from the neurons [n, neurons] that each record opens."""
    # A neuron that one record alone opens gives that record away. The record is taken out, and the next such
    # neuron is looked for (Shariati and Alambardar Meybodi, arXiv:2609.09659).
    left = torch.ones(len(opened), dtype=torch.bool)
    while True:
        single = opened[left].sum(0) == 1
        out = left & opened[:, single].any(1)
        if not out.any():
            return int((~left).sum())
        left &= ~out


def _of_labels(model: nn.Module, observation: Observation) -> str:
    if not observation.plain:
        return (
            "the loss is not the mean cross-entropy: label counts are not read off it, and searches seek the "
            "targets with the records"
        )
    if why := uncountable(observation):
        return f"{why}: label counts are not read off it"
    if f"{last_dense(model)}.bias" in observation.updates:
        return "the last layer's bias changes by predicted minus true class shares: label counts are readable"
    return "nothing is sent of a bias of the last layer; label counts follow from its weights, less sharply"
