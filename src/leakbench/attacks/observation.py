"""What the server saw: the models it sent out and the updates that came back, with the threat model spelt out."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from leakbench import generators, victims
from leakbench.artefacts import Facts, open_tensors
from leakbench.errors import UserError


@dataclass(frozen=True)
class Observation:
    """An honest-but-curious server's view.

    network: the victim's architecture (module, parameters, shape, classes), public to every participant.
    weights: parameter → [origins, *shape], the models that were sent out.
    updates: parameter → [rounds, clients, *shape], what came back: new minus old weights, or a gradient.
    origin: [rounds], which of `weights` each round started from.
    clients: number of samples of each client, if the server knows it.
    knows: the threat model field by field; every table prints it.
    generator: the attacker's own network, if the attack uses one.
    """

    network: dict[str, Any]
    weights: dict[str, np.ndarray]
    updates: dict[str, np.ndarray]
    origin: np.ndarray
    clients: list[int]
    kind: Literal["model", "gradient"]
    knows: dict[str, str] = field(default_factory=dict)
    generator: nn.Module | None = None

    @property
    def rounds(self) -> int:
        """Number of rounds observed."""
        return len(self.origin)

    def model(self, origin: int = 0) -> nn.Module:
        """Return the victim with the weights that were sent out, in evaluation mode."""
        model = victims.build(
            self.network["module"], self.network["shape"], self.network["classes"], self.network["parameters"]
        )
        model.load_state_dict(
            {name: torch.from_numpy(np.array(v[origin])) for name, v in self.weights.items()}
        )
        return model.eval()

    def update(self, name: str, rounds: slice = slice(None)) -> Tensor:
        """Return one parameter's updates [rounds, clients, *shape] as a float32 tensor."""
        return torch.from_numpy(np.array(self.updates[name][rounds], dtype=np.float32))

    def randomised(self, rounds: int, rng: torch.Generator) -> "Observation":
        """Return the null observation: the first `rounds` rounds with every update replaced by normal noise.

        Each tensor of each update keeps its own standard deviation, so only the information is gone.
        """
        updates = {}
        for name in sorted(self.updates):
            true = self.update(name, slice(rounds))
            scale = true.flatten(2).std(-1, unbiased=False) if true.dim() > 2 else true.abs()
            noise = torch.randn(true.shape, generator=rng)
            updates[name] = (noise * scale.reshape(*true.shape[:2], *[1] * (true.dim() - 2))).numpy()
        return replace(self, updates=updates, origin=self.origin[:rounds])


def _one_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"


def check(observation: Observation, where: str) -> None:
    """Refuse an observation whose tensors do not fit its victim. Raises UserError naming file and tensor."""
    network, origin = observation.network, observation.origin
    try:
        shape = tuple(int(n) for n in network["shape"])
        model = victims.build(
            network["module"], (shape[0], shape[1], shape[2]), network["classes"], network["parameters"]
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError) as problem:
        raise UserError(
            f"{where}: network is not a victim ({_one_line(problem)}; see docs/observation.md)"
        ) from problem
    if origin.ndim != 1 or not np.issubdtype(origin.dtype, np.integer) or (len(origin) and origin.min() < 0):
        raise UserError(
            f"{where}: origin is {origin.dtype} {origin.shape}, not the number of a sent model for each round"
        )
    updates, sent = (len(origin), len(observation.clients)), int(origin.max(initial=-1)) + 1
    for name, parameter in model.named_parameters():
        expected = tuple(parameter.shape)
        for kind, tensors in (("global", observation.weights), ("updates", observation.updates)):
            if name not in tensors:
                raise UserError(f"{where}: {kind}/{name} is missing (the victim has it)")
            array = tensors[name]
            lead = 1 if kind == "global" else 2
            if array.shape[lead:] != expected or array.dtype != np.float32:
                raise UserError(
                    f"{where}: {kind}/{name} is {array.dtype} {array.shape[lead:]}, the victim has float32 {expected}"
                )
            if not all(np.isfinite(part).all() for part in array):
                raise UserError(
                    f"{where}: {kind}/{name} holds NaN or Inf (was the client's training stable?)"
                )
        if observation.weights[name].shape[0] < sent:
            raise UserError(
                f"{where}: global/{name} has {observation.weights[name].shape[0]} models, origin names {sent}"
            )
        if observation.updates[name].shape[:2] != updates:
            raise UserError(
                f"{where}: updates/{name} has {observation.updates[name].shape[:2]} rounds and clients, "
                f"origin and clients say {updates}"
            )


def _read_generator(path: Path, network: dict[str, Any]) -> nn.Module:
    tensors, made = open_tensors(path)
    try:
        trained = generators.build(
            made["module"], tuple(made["features"]), tuple(network["shape"]), made["parameters"]
        )
        trained.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in tensors.items()})
    except (
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        AttributeError,
        ImportError,
        RuntimeError,
    ) as problem:
        raise UserError(
            f"{path}: not a generator ({_one_line(problem)}; delete it and run its rule again)"
        ) from problem
    return trained.eval()


def read_observation(path: Path, generator: Path | None = None) -> tuple[Observation, Facts]:
    """Read a capture (and the attacker's generator) and check that it fits its own victim.

    Raises UserError for a file that is malformed, misses a tensor or holds NaN or Inf.
    """
    tensors, facts = open_tensors(path)
    try:
        network, clients, kind = facts["network"], facts["clients"], facts["kind"]
        origin = np.array(tensors["origin"])
    except KeyError as missing:
        raise UserError(
            f"{path}: not an observation, {missing} is missing (see docs/observation.md)"
        ) from missing
    observation = Observation(
        network=network,
        weights={
            name.removeprefix("global/"): value
            for name, value in tensors.items()
            if name.startswith("global/")
        },
        updates={
            name.removeprefix("updates/"): value
            for name, value in tensors.items()
            if name.startswith("updates/")
        },
        origin=origin,
        clients=clients,
        kind=kind,
        knows=facts.get("knows", {}),
    )
    check(observation, str(path))
    if generator is not None:
        observation = replace(observation, generator=_read_generator(generator, network))
    return observation, facts
