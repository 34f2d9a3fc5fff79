"""What somebody gives of a client: code, records, training; and what the server sees of its round."""

from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from leakbench.audit import network
from leakbench.audit.child import Json, is_rate
from leakbench.audit.replay import Round, round_in
from leakbench.audit.watch import LARGEST, watched
from leakbench.base.errors import UserError
from leakbench.observations.observation import LOSS, Observation

Loss = Callable[[Any, Any], Tensor]


@dataclass(frozen=True)
class Client:
    """A client's training by plain SGD, which can be played with other records or another network."""

    model: nn.Module
    loss: Loss
    # The first `records` are the client's own, and the others stand for other clients.
    inputs: Tensor
    targets: Tensor
    records: int
    # Each is on all the client's records.
    local_steps: int
    lr: float
    validation: tuple[Tensor, Tensor] | None

    def play(self) -> Round:
        """Train the model, restore its weights and return the round."""
        # It is not a copy that is trained, because a loss may read the network itself, for example to punish
        # large weights. A client with one step sends its gradient (FedSGD), one with more sends weights.
        inputs, targets = self.inputs[: self.records], self.targets[: self.records]
        parameters = list(network.trainable(self.model).values())
        if not parameters:
            raise UserError("no parameter is trained (set requires_grad of those that the client trains)")
        with network.failing("the model cannot be copied"):
            start = deepcopy(self.model.state_dict())
            deepcopy(self.model)
        before = [p.grad for p in parameters]

        def train() -> None:
            torch.manual_seed(0)
            optimiser = torch.optim.SGD(parameters, lr=self.lr)
            for _ in range(self.local_steps):
                optimiser.zero_grad()
                self._backward(inputs, targets)
                optimiser.step()

        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            try:
                _, watch = watched(train, targets)
                played = round_in(watch, gradient=self.local_steps == 1)
            finally:
                self.model.load_state_dict(start)
                for parameter, each in zip(parameters, before, strict=True):
                    parameter.grad = each
        if sum(p.numel() for p in parameters) > LARGEST and {p.dtype for p in parameters} == {torch.float32}:
            # The memory need not hold the copy that was sent as well.
            played = replace(played, model=self.model)
        return replace(
            played, inputs=inputs.float() if inputs.is_floating_point() else inputs, targets=targets,
            steps=self.local_steps, batch_size=None,
        )  # fmt: skip

    def _backward(self, inputs: Tensor, targets: Tensor) -> None:
        dtype = next(self.model.parameters()).dtype if inputs.is_floating_point() else inputs.dtype
        inputs = inputs.to(dtype, copy=True)
        with network.failing("the model fails on the batch, or does not take one batch of inputs alone"):
            output = self.model(inputs)
        network.scores(output, len(inputs))
        with network.failing("the loss fails on what the model returns"):
            value = self.loss(output, targets.clone())
            if not value.requires_grad:
                raise UserError(
                    "the loss depends on no parameter that is trained (is the model under torch.no_grad?)"
                )
            value.backward()

    def reads_network(self) -> bool:
        """Return whether the loss reads the network itself, so that no other can take its place."""
        return bool(replace(self, local_steps=1).play().differs.keys() - {"scale", "computed"})


def client(made: Any, records: int | None = None, local_steps: int = 5, lr: float = 0.01) -> Client:
    """Return the client of (model, loss, batch) or (model, loss, batch, validation)."""
    # `records` of the batch are the client's own, or all. Raises UserError for what cannot be audited.
    if not isinstance(local_steps, Integral) or isinstance(local_steps, bool) or local_steps < 1:
        raise UserError(f"local_steps is {local_steps!r}, not a whole number above 0")
    if not is_rate(lr):
        raise UserError(f"lr is {lr!r}, not a rate above 0")
    if not isinstance(made, tuple | list) or len(made) not in (3, 4):
        raise UserError(f"returned {type(made).__name__}, not (model, loss, batch)")
    model, loss, batch, *rest = made
    if not isinstance(model, nn.Module):
        raise UserError(f"the model is {type(model).__name__}, not a torch.nn.Module")
    model = network.uncompiled(model)
    if not callable(loss):
        raise UserError(f"the loss is {type(loss).__name__}, not a function of scores and targets")
    if not list(model.parameters()):
        raise UserError("the model has no parameters")
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise UserError(f"{name} has no shape yet (call the model once, on a batch)")
        if not parameter.is_floating_point() or parameter.device.type != "cpu":
            raise UserError(
                f"{name} is {parameter.dtype} on {parameter.device}, and an audit takes real numbers on the "
                "CPU (model.cpu())"
            )
    inputs, targets = _records(batch)
    if not inputs.is_floating_point():
        network.reads(model, inputs)
    if records is not None and records > len(inputs):
        raise UserError(f"the batch has {len(inputs)} records, fewer than --batch {records}")
    return Client(
        model, loss, inputs, targets, records or len(inputs), int(local_steps), float(lr),
        _records(rest[0]) if rest else None,
    )  # fmt: skip


def _records(batch: Any) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a batch. Raises UserError for a batch that cannot be audited."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        size = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
        what = f"the batch is {type(batch).__name__}{size}, not (inputs, targets)"
        raise UserError(f"{what}, or the model takes several inputs, {network.SPLITS}")
    with network.failing("the batch is no pair of tensors"):
        inputs, targets = (
            part if isinstance(part, tuple | list | dict) else torch.as_tensor(part).detach().cpu().to_dense()
            for part in batch
        )
    if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
        raise UserError(f"the batch has several inputs or targets, {network.SPLITS}")
    inputs = network.as_records(inputs)
    if targets.shape[:1] != inputs.shape[:1]:
        raise UserError(
            f"inputs {tuple(inputs.shape)} and targets {tuple(targets.shape)} are no batch of records"
        )
    if not bool(inputs.isfinite().all()):
        raise UserError("the inputs hold NaN or Inf")
    return inputs, targets


# The label of a record whose target is no class. No attack names it.
UNKNOWN = -2


@dataclass(frozen=True)
class Truth:
    """The private records, and records of other clients if there are any."""

    # [n, channels, rows, columns] from 0 to 1; a record of k numbers has k channels of one row and column.
    images: Tensor
    labels: Tensor  # [n], all UNKNOWN if the targets are no classes
    others: Tensor | None = None


def observed(
    model: nn.Module, inputs: Tensor, sent: Collection[str], precision: str = "",
    heads: Collection[int] = (), **seen: Any,
) -> Observation:  # fmt: skip
    """Return the observation of a client's network that reads such inputs, with what else is `seen` of it."""
    mean, deviation, images = network.unit(inputs)
    own = network.wrapped(model, inputs, mean, deviation, sent, precision, heads)
    channels, rows, columns = images.shape[1:]
    with torch.no_grad():
        classes = own.eval()(images[:1]).shape[1]
    return Observation(
        network={"shape": [rows, columns, channels], "classes": classes},
        mode="train" if network.batch_statistics(model) else "eval",
        own=own,
        **seen,
    )


def view(played: Round, others: Tensor | None = None) -> tuple[Observation, Truth]:
    """Return what the server sees of a round, and the truth, with inputs of other clients."""
    local = {
        "lr": played.lr,
        "batch_size": played.batch_size,
        "epochs": played.steps,
        "loss": LOSS if played.plain_loss else "another",
        **({"optimiser": "adam"} if "Adam" in played.optimiser else {}),
        **({"precision": played.precision} if played.precision else {}),
    }
    # Nobody changes the network that is sent, so its weights are not copied.
    weights = {f"network.{n}": v.detach().cpu().numpy()[None] for n, v in played.model.state_dict().items()}
    updates = {f"network.{n}": v.float().cpu().numpy()[None, None] for n, v in played.update.items()}
    observation = observed(
        played.model, played.inputs, played.update, played.precision, played.heads, weights=weights,
        updates=updates, dropout=played.drops, origin=np.zeros(1, np.int64), clients=[len(played.inputs)],
        kind=played.kind, local=local,
    )  # fmt: skip
    mean, deviation, images = network.unit(played.inputs)
    labels = torch.full((len(images),), UNKNOWN)
    scores = torch.empty(len(images), observation.network["classes"])
    if played.targets is not None and network.classes_in(played.targets, scores):
        labels = played.targets.flatten().long()
    if others is not None:
        others = others.reshape(-1, *images.shape[1:]) * deviation[:, None, None] + mean[:, None, None]
    return observation, Truth(images, labels, others)


def facts(played: Round, observation: Observation | None, vocabulary: int = 0) -> Json:
    """Return the facts of a round that were read off the client's code: name → words or number."""
    # Records that are tokens have a vocabulary and no observation.
    shape = list(played.inputs.shape[1:])
    low, high = float(played.inputs.min()), float(played.inputs.max())
    norms = {n: network.of_batch(m) for n, m in played.model.named_modules() if isinstance(m, _BatchNorm)}
    still = [name for name, uses in norms.items() if not uses]
    norm = "none" if not norms else "the batch at hand" if not still else "sent statistics"
    if still and len(still) < len(norms):
        norm = f"mixed: sent statistics in {', '.join(still[:3])}{' …' if len(still) > 3 else ''}"
    found = {
        "network": type(played.model).__name__,
        "parameters": sum(p.numel() for p in played.model.parameters()),
        "not trained": network.untrained(played.model, played.update),
        "input": f"{' × '.join(map(str, shape))}, from {low:.3g} to {high:.3g}",
        "classes": None if observation is None else observation.network["classes"],
        "records": len(played.inputs),
        "local steps": played.steps,
        "optimiser": played.optimiser,
        "sends": "one gradient" if played.kind == "gradient" else "new weights",
        "batch norm by": norm,
        "dropout": "yes" if played.drops else "no",
        "buffers sent": len(played.model.state_dict()) - len(list(played.model.named_parameters())),
        "loss": played.loss,
        "computes in": f"{played.precision} (and float32)" if played.precision else "float32",
        "computed again": f"{played.replayed[0]} of {played.replayed[1]} steps",
    }
    if observation is None:
        found["input"] = f"{shape[0]} tokens, of a vocabulary of {vocabulary}"
        found |= dict.fromkeys(("batch norm by", "buffers sent", "computes in"))
    return {name: value for name, value in found.items() if value not in ("", None)}
