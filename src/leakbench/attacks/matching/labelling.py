"""The labels of each update that the threat model allows, and what label rules know of the last layer."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from leakbench.attacks.label_inference import Answers, LastLayer, Probe, infer
from leakbench.attacks.matching.received import as_gradient, local_steps, noise_images, received
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors
from leakbench.networks.generators.samples import Samples
from leakbench.networks.layers import last_dense
from leakbench.observations.observation import Observation

UPDATES_AT_ONCE = 64


def known_labels(observation: Observation, client: int, rounds: Tensor, model: nn.Module) -> Tensor | None:
    """Return the labels of updates as the threat model has them."""
    if observation.labelling == "joint":
        return None
    if observation.labelling == "oracle":
        if observation.labels is None:
            raise Unfit(
                f"attack: labels: oracle, but the observation gives no labels/{client} (set labels: counted)"
            )
        return torch.from_numpy(np.array(observation.labels[client]))[rounds]
    parts = rounds.split(UPDATES_AT_ONCE)
    layers = (last_layer(observation, client, part, model) for part in parts)
    return torch.cat([infer(observation.labelling, layer) for layer in layers])


@torch.no_grad()
def last_layer(observation: Observation, client: int, rounds: Tensor, model: nn.Module) -> LastLayer:
    """Return what is known of the last dense layer from a client's updates."""
    name, batch = last_dense(model), observation.clients[client]
    gradient = {
        kind: as_gradient(observation, received(observation, f"{name}.{kind}", rounds, client), batch)
        for kind in ("weight", "bias")
        if f"{name}.{kind}" in observation.updates
    }

    def moved() -> list[Tensors]:
        """Return the parameters after the client's local steps, sent weights plus update, for each round."""
        updates = {
            each: received(observation, each, rounds, client)
            for each, _ in model.named_parameters()
            if each in observation.updates
        }
        return [
            {each: model.get_parameter(each).cpu() + update[place] for each, update in updates.items()}
            for place in range(len(rounds))
        ]

    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    sent = deepcopy(layer).cpu()
    if layer.out_features == 1 and observation.network["classes"] == 2:
        sent, gradient = _of_two_classes(sent, gradient)
    own = observation.generator
    return LastLayer(
        weight=gradient["weight"],
        bias=gradient.get("bias"),
        batch=batch,
        noise=_probe(model, layer, noise_images(observation.pixels), moved),
        sent=sent,
        steps=len(local_steps(observation, batch)) if observation.kind == "model" else 1,
        lr=float(observation.local["lr"]),
        auxiliary=_probe(model, layer, own.images, moved, own.labels) if isinstance(own, Samples) else None,
    )


def _of_two_classes(layer: nn.Linear, gradient: Tensors) -> tuple[nn.Linear, Tensors]:
    """Return a layer with one logit, and its gradient, as a layer with two scores: 0 and that logit."""
    both = nn.Linear(layer.in_features, 2, bias=layer.bias is not None)
    both.load_state_dict({n: torch.cat([0 * value, value]) for n, value in layer.state_dict().items()})
    return both, {kind: torch.cat([-value, value], 1) for kind, value in gradient.items()}


def _probe(
    model: nn.Module, layer: nn.Linear, images: Tensor, moved: Callable[[], list[Tensors]],
    labels: Tensor | None = None,
) -> Probe:  # fmt: skip
    """Return what the sent network and the networks with the weights of `moved` compute from `images`."""

    @torch.no_grad()
    def answers(weights: Tensors) -> Answers:
        read: list[Tensor] = []
        images_there = images.to(next(model.parameters()))
        with layer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0])):
            logits = functional_call(model, weights, (images_there,)) if weights else model(images_there)
        return Answers(read[0].cpu(), logits.cpu())

    def later() -> Answers:
        each = [answers(weights) for weights in moved()]
        inputs, logits = zip(*((one.inputs, one.logits) for one in each), strict=True)
        return Answers(torch.stack(inputs), torch.stack(logits))

    return Probe(cache(lambda: answers({})), later, labels)
