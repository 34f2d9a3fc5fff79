"""What a server makes of a round's uploads: weights by a rule, and their weighted sum, plain or encrypted.

Before that clients may validate each other's models. An upload that cannot be used is left out, and the round
goes on with the others.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from leakbench.base.errors import UserError
from leakbench.defences.aggregation import Report, Rule, fused_shares
from leakbench.defences.encryption import Keys, Scheme, Sealed, quantise

log = logging.getLogger(__name__)
State = dict[str, Tensor]
# Shares of some uploads → their weighted mean.
Mixer = Callable[[Sequence[float]], State]
# A client's number and a model → its accuracy and mean loss on what that client holds out.
Validate = Callable[[int, State], tuple[float, float]]


class Fit(NamedTuple):
    """How well a client's model does in its last local epoch, while it learns."""

    loss: float
    accuracy: float


@dataclass(frozen=True)
class Protocol:
    """How a federation aggregates; `fusion` is a model's own share in what others validate (Eqn 4.5)."""

    rule: Rule
    cross_validates: bool = False
    fusion: float = 1.0
    sealing: tuple[Scheme, Keys] | None = None
    faults: Mapping[int, Mapping[int, str]] = field(default_factory=dict)  # round from 0 → client → kind


class Aggregate(NamedTuple):
    """One round's aggregate and what led to it, float64 [clients] each, NaN where nobody measured."""

    state: State
    weights: np.ndarray
    validation_loss: np.ndarray
    validation_accuracy: np.ndarray
    problems: dict[int, str]


def averaged(uploads: Sequence[State], shares: Sequence[float]) -> State:
    """Return the weighted mean of uploads (McMahan et al., algorithm 1); counters take the largest value."""
    total = sum(shares)
    out: State = {}
    for name, first in uploads[0].items():
        values = [upload[name] for upload in uploads]
        if first.is_floating_point():
            # Batch norm's statistics are averaged like parameters, as in FedKL's code.
            mean = sum(value.double() * (n / total) for value, n in zip(values, shares, strict=True))
            assert isinstance(mean, Tensor)
            out[name] = mean.to(first.dtype)
        else:
            out[name] = torch.stack(values).amax(0)
    return out


def flat(state: State) -> np.ndarray:
    """Return all tensors except counters as one array, float64 [values], in the order of their names."""
    ordered = [state[name] for name in sorted(state)]
    parts = [v.detach().double().cpu().flatten() for v in ordered if v.is_floating_point()]
    return torch.cat(parts).numpy() if parts else np.zeros(0)


def moved(state: State, by: np.ndarray) -> State:
    """Return a state with `by` [values] added to all tensors except counters."""
    out, start = dict(state), 0
    for name in sorted(state):
        value = state[name]
        if value.is_floating_point():
            step = torch.from_numpy(by[start : start + value.numel()]).view(value.shape)
            out[name] = (value.double() + step.to(value.device)).to(value.dtype)
            start += value.numel()
    return out


def _sealed(upload: State, server: State, scheme: Scheme, keys: Keys, fault: str) -> Sealed:
    """Return what a client sends: its update, encrypted."""
    sealed = scheme.seal(scheme.keys() if fault == "other-key" else keys, flat(upload) - flat(server))
    if fault == "malformed":
        sealed = sealed._replace(blocks=(b"\xff" * len(sealed.blocks[0]), *sealed.blocks[1:]))
    return sealed


def _encrypted(
    server: State, uploads: Sequence[State], sealed: Sequence[Sealed], scheme: Scheme, keys: Keys
) -> Mixer:
    # Counters of batches say nothing about the images and are sent unencrypted.
    counted = averaged(uploads, [1.0] * len(uploads))
    base = {name: server[name] if v.is_floating_point() else v for name, v in counted.items()}

    def mix(shares: Sequence[float]) -> State:
        weights = quantise.weights(shares, scheme.pieces)
        return moved(base, scheme.opened(keys, scheme.combine(keys.without_private(), sealed, weights)))

    return mix


def collected(
    server: State, uploads: Sequence[State], protocol: Protocol, turn: int
) -> tuple[list[int], Mixer, dict[int, str]]:
    """Return the clients with usable uploads, a function that mixes these, and why others were left out."""
    faults = protocol.faults.get(turn, {})
    came: dict[int, Any] = {}
    problems: dict[int, str] = {}
    for client, upload in enumerate(uploads):
        try:
            if faults.get(client) == "absent":
                raise UserError("no update came (it is asked again in the next round)")
            if protocol.sealing:
                scheme, keys = protocol.sealing
                sealed = _sealed(upload, server, scheme, keys, faults.get(client, ""))
                scheme.check(keys.without_private(), sealed, len(flat(server)))
            came[client] = sealed if protocol.sealing else upload
        except UserError as problem:
            problems[client] = str(problem)
            log.warning("round %d: client %d is left out: %s", turn + 1, client, problem)
    if not came:
        first = next(iter(problems.values()))
        raise UserError(f"round {turn + 1}: no client's update can be used: {first}")
    sent = list(came.values())
    if not protocol.sealing:
        return list(came), lambda shares: averaged(sent, shares), problems
    plain = [uploads[client] for client in came]
    return list(came), _encrypted(server, plain, sent, *protocol.sealing), problems


def aggregate(
    server: State, uploads: Sequence[State], fits: Sequence[Fit], samples: Sequence[int], protocol: Protocol,
    turn: int, validate: Validate,
) -> Aggregate:  # fmt: skip
    """Return the outcome of a round. Raises UserError if no upload can be used."""
    present, mix, problems = collected(server, uploads, protocol, turn)
    count = len(present)
    right, loss = np.full((2, count, count), np.nan)
    if protocol.cross_validates:
        for i, shares in enumerate(fused_shares(count, protocol.fusion)):
            model = mix(shares)
            for j, client in enumerate(present):
                right[i, j], loss[i, j] = validate(client, model)
    report = Report(
        [samples[client] for client in present],
        *np.transpose([fits[client] for client in present]).copy(),
        *((loss, right) if protocol.cross_validates else (None, None)),
    )
    weights = protocol.rule(report)
    weighed = np.zeros(len(uploads))
    weighed[present] = weights
    losses, rights = np.full((2, len(uploads)), np.nan)
    losses[present], rights[present] = loss.mean(1), right.mean(1)
    return Aggregate(mix(weights.tolist()), weighed, losses, rights, problems)
