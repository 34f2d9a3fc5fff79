"""Against a key-lock: make scale and shift unknowns, or, without adapting, draw a lock as clients do."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors
from leakbench.defences.key_lock import ACTIVATIONS, LAYERS, draw_key
from leakbench.observations.adaptation import Adaptation, Nuisance
from leakbench.observations.observation import Observation

# Each of the two lock layers, and the parameter that it gives of the batch norm in whose place they stand.
FACTORS = {"scale": "weight", "shift": "bias"}


def key_lock() -> Adaptation:
    """Optimise a scale and a shift of each channel, which the lock gives, together with the images."""
    return Adaptation(nuisance=partial(taken, seek=True))


def unadapted() -> Adaptation:
    """Replace a client's secrets by others, drawn as the client drew its own."""
    return Adaptation(nuisance=partial(taken, seek=False))


def taken(
    observation: Observation, client: int, rounds: Tensor, rng: torch.Generator, *, seek: bool
) -> Nuisance:
    """Return how the attack treats a client's lock, for trials of its updates of `rounds` [trials].

    What the client shares is known; the rest is drawn as the client drew its own. Raises Unfit for a chain of
    locks, and for a lock that does not fit the observation's facts.
    """
    layer, length, activation = _told(observation)
    conv, channels = _before(observation, layer)

    def seen(values: Mapping[str, Any], name: str) -> Tensor:
        return torch.from_numpy(np.array(values[name][rounds.numpy(), client])).float()

    drawn = [_draw(length, channels, rng) for _ in rounds]
    known = {name: torch.stack([each[name] for each in drawn]) for name in drawn[0]}
    for kind, tensors in (("shown", observation.shown), ("updates", observation.updates)):
        for name in known:
            own, wanted = tensors.get(f"{layer}.{name}"), known[name].shape[1:]
            if own is not None and own.shape[2:] != wanted:
                raise Unfit(
                    f"attack: {kind}/{layer}.{name} is {own.shape[2:]}, a key of length {length} needs "
                    f"{tuple(wanted)}"
                )
    shared = {name for name in known if f"{layer}.{name}" in observation.shown}
    known |= {name: seen(observation.shown, f"{layer}.{name}") for name in shared}
    shut = torch.zeros(len(rounds), channels, dtype=torch.bool)
    told = tuple(name for name in LAYERS if f"{layer}.{name}" in observation.updates)
    if seek:
        if "key" not in shared and {"shift.weight", "shift.bias"} <= set(told):
            weight, bias = (seen(observation.updates, f"{layer}.shift.{part}") for part in ("weight", "bias"))
            known["key"] = read_key(weight, bias)
            shared.add("key")
        told = tuple(name for name in told if name.endswith("bias"))
        if activation == "relu":
            shut = (seen(observation.updates, f"{conv}.weight") == 0).flatten(2).all(2)
    device = observation.work.device
    known, shut = {name: value.to(device) for name, value in known.items()}, shut.to(device)
    return of_lock(layer, activation, known, told, shut, seek and not shared >= known.keys())


def _told(observation: Observation) -> tuple[str, int, str]:
    """Return the lock's place, the length of its key and its activation, as the observation states them."""
    layers, about = observation.hidden["layers"], observation.hidden["about"]
    if len(layers) != 1:
        raise Unfit(f"attack: the client has {len(layers)} locks in a chain (attacks know of one)")
    length, activation = about.get("key_length"), about.get("activation")
    if type(length) is not int or length < 1 or activation not in ACTIVATIONS:
        raise Unfit(
            "attack: the facts of a key-lock are hidden.about.key_length, a whole number, and "
            f"hidden.about.activation, one of {', '.join(ACTIVATIONS)}"
        )
    return layers[0], length, activation


def of_lock(
    layer: str, activation: str, known: Tensors, told: tuple[str, ...], shut: Tensor, sought: bool
) -> Nuisance:
    """Return a lock as further unknowns, from what the attacker knows or has guessed of it."""
    root = sought and activation == "relu"
    act = torch.square if root else ACTIVATIONS[activation]

    def linear(rows: Tensor) -> Tensors:
        """Return what the two lock layers give before the activation: [n, channels]."""
        key = known["key"][rows][:, :, None]
        return {
            f"lock.{name}": (known[f"{name}.weight"][rows] @ key)[:, :, 0] + known[f"{name}.bias"][rows]
            for name in FACTORS
        }

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        before = unknowns if sought else linear(rows)
        scale, shift = (act(before[f"lock.{name}"]) for name in FACTORS)
        return {f"{layer}.weight": torch.where(shut[rows], 0, scale), f"{layer}.bias": shift}

    def gradients(rows: Tensor, dummies: Tensors, slopes: Tensors) -> Tensors:
        """Return the matched gradients of the lock layers (chain rule, thesis Eqn 5.27 and 5.28)."""
        found: Tensors = {}
        for name, own in FACTORS.items():
            bias = slopes[f"{layer}.{own}"] * _slope(activation, dummies[f"{layer}.{own}"])
            found[f"{name}.weight"] = bias[:, :, None] * known["key"][rows][:, None]
            found[f"{name}.bias"] = bias
        return {f"{layer}.{name}": found[name] for name in told}

    first = linear(torch.arange(len(shut))) if sought else {}
    start = {name: value.abs().sqrt() if root else value for name, value in first.items()}
    return Nuisance(start, dummies, tuple(f"{layer}.{name}" for name in told), gradients)


def _slope(activation: str, found: Tensor) -> Tensor:
    """Return the derivative of an activation at the point where its value is `found`."""
    if activation == "none":
        return torch.ones_like(found)
    return found * (1 - found) if activation == "sigmoid" else (found > 0).to(found.dtype)


def read_key(weight: Tensor, bias: Tensor) -> Tensor:
    """Return the key behind a lock layer's gradients, [n, key length].

    A dense layer's weight gradient divided by its bias gradient is its input (Fidel, section II-A), the same
    for every channel; the channel with the largest bias gradient has lost least to rounding. The key is one
    half where all gradients are zero.
    """
    best = bias.abs().argmax(1)
    rows = torch.arange(len(best))
    return torch.nan_to_num(weight[rows, best] / bias[rows, best, None], 0.5, 0.5, 0.5)


def _before(observation: Observation, layer: str) -> tuple[str, int]:
    """Return the name of the convolution before a lock, and the number of its channels."""
    last = "", 0
    for name, module in observation.model().named_modules():
        if name == layer:
            break
        if isinstance(module, nn.Conv2d):
            last = name, module.out_channels
    return last


def _draw(length: int, channels: int, rng: torch.Generator) -> Tensors:
    """Return a key and lock layers' parameters, drawn as a client draws them."""
    found = {"key": draw_key(length, rng)}
    for name in LAYERS:
        shape = (channels, length) if name.endswith("weight") else (channels,)
        found[name] = (torch.rand(shape, generator=rng) * 2 - 1) * length**-0.5
    return found
