"""What an attacker knows, guesses or seeks of a client's key-lock."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.attacks.observation import Observation
from leakbench.defences.key_lock import ACTIVATIONS, LAYERS, draw_key
from leakbench.errors import Unfit
from leakbench.matching.unlocked import FACTORS
from leakbench.tensors import Tensors


def _slope(activation: str, found: Tensor) -> Tensor:
    """Return the derivative of an activation where it gave `found`."""
    if activation == "none":
        return torch.ones_like(found)
    return found * (1 - found) if activation == "sigmoid" else (found > 0).to(found.dtype)


@dataclass(frozen=True)
class Lock:
    """What the attacker of a group's trials knows or has guessed of its client's lock.

    layer: the lock's place. known: `key` [trials, key length], and the lock layers' parameters by their names
    in LAYERS [trials, *shape], where shared or guessed. sought: whether γ and β are unknowns. told: the lock
    layers' parameters whose gradients are matched. shut: [trials, channels], the scales known to be zero.
    """

    layer: str
    activation: str
    known: Tensors
    sought: bool
    told: tuple[str, ...]
    shut: Tensor

    def start(self) -> Tensors:
        """Return the first unknowns, which stand for factors near those of the layers as they were guessed.

        Through the square that stands for a ReLU nothing would move a factor that begins at zero.
        """
        if not self.sought:
            return {}
        before = self._linear(torch.arange(len(self.shut)))
        root = self.activation == "relu"
        return {f"lock.{name}": value.abs().sqrt() if root else value for name, value in before.items()}

    def factors(self, rows: Tensor, unknowns: Tensors) -> Tensors:
        """Return `scale` and `shift` [n, channels] of the trials `rows` [n], as the activation can give
        them."""
        act = ACTIVATIONS[self.activation]
        before = {name: unknowns[f"lock.{name}"] for name in FACTORS} if self.sought else self._linear(rows)
        if self.sought and self.activation == "relu":
            act = torch.square
        found = {name: act(value) for name, value in before.items()}
        return found | {"scale": torch.where(self.shut[rows], 0, found["scale"])}

    def gradients(self, rows: Tensor, factors: Tensors, slopes: Tensors) -> Tensors:
        """Return those of the lock layers' gradients that are matched, from those of γ and β (`slopes`).

        Source: the chain rule, thesis Eqn 5.27 and 5.28.
        """
        found: Tensors = {}
        for name in FACTORS:
            bias = slopes[name] * _slope(self.activation, factors[name])
            found[f"{name}.weight"] = bias[:, :, None] * self.known["key"][rows][:, None]
            found[f"{name}.bias"] = bias
        return {f"{self.layer}.{name}": found[name] for name in self.told}

    def _linear(self, rows: Tensor) -> Tensors:
        """Return what the two lock layers give before the activation: `scale` and `shift` [n, channels]."""
        key = self.known["key"][rows][:, :, None]
        weight, bias = (
            {name: self.known[f"{name}.{part}"][rows] for name in FACTORS} for part in ("weight", "bias")
        )
        return {name: (weight[name] @ key)[:, :, 0] + bias[name] for name in FACTORS}


def read_key(weight: Tensor, bias: Tensor) -> Tensor:
    """Return the key behind a lock layer's gradients: [n, channels, key length] and [n, channels] → [n, key
    length].

    A dense layer's weight gradient over its bias gradient is what it read (Fidel, section II-A), here the
    same for every channel: the one with the largest bias gradient has lost least to rounding. One half where
    all are zero.
    """
    best = bias.abs().argmax(1)
    rows = torch.arange(len(best))
    return torch.nan_to_num(weight[rows, best] / bias[rows, best, None], 0.5, 0.5, 0.5)


def guess(
    observation: Observation,
    client: int,
    rounds: Tensor,
    restarts: int,
    how: Literal["guessed", "sought"],
    rng: torch.Generator,
) -> Lock | None:
    """Return what is to be made of a client's lock, for the trials of `rounds` × restarts; none if there is
    no lock.

    What the client shares is known; a key or layers that it does not share are drawn as it drew its own.
    `sought`: the key is read off the lock layers' gradients, if they are shared, and unless all is known
    then, γ and β are unknowns; a scale through which no gradient came is zero. Of the gradients the biases'
    alone are matched then: the weights' are those times the key, tell no more and would drown all else.
    Raises Unfit for a chained lock.
    """
    facts = observation.lock
    if not facts:
        return None
    if len(facts["layers"]) != 1:
        raise Unfit(f"attack: the client has {len(facts['layers'])} locks in a chain (attacks know of one)")
    layer, shares = facts["layers"][0], facts["shares"]
    conv, channels = _before(observation, layer)
    trials = rounds.repeat_interleave(restarts)

    def seen(values: Mapping[str, Any], name: str) -> Tensor:
        return torch.from_numpy(np.array(values[name][trials.numpy(), client])).float()

    drawn = [_draw(facts["key_length"], channels, rng) for _ in trials]
    known = {name: torch.stack([each[name] for each in drawn]) for name in drawn[0]}
    shared = {name for name in known if f"{layer}.{name}" in observation.shown}
    known |= {name: seen(observation.shown, f"{layer}.{name}") for name in shared}
    shut = torch.zeros(len(trials), channels, dtype=torch.bool)
    told: tuple[str, ...] = LAYERS if "lock-gradients" in shares else ()
    if how == "sought":
        if told and "key" not in shared:
            weight, bias = (seen(observation.updates, f"{layer}.shift.{part}") for part in ("weight", "bias"))
            known["key"] = read_key(weight, bias)
            shared.add("key")
        told = tuple(name for name in told if name.endswith("bias"))
        if facts["activation"] == "relu":
            shut = (seen(observation.updates, f"{conv}.weight") == 0).flatten(2).all(2)
    device = observation.work.device
    return Lock(
        layer,
        facts["activation"],
        {name: value.to(device) for name, value in known.items()},
        how == "sought" and not shared >= known.keys(),
        told,
        shut.to(device),
    )


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
