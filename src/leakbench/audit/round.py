"""One round of one client, recorded from its own code: what it was sent, trained on and sends back."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.parameter import is_lazy

from leakbench.audit.reasons import one_line
from leakbench.audit.times import is_rate
from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors

Loss = Callable[[Any, Any], Tensor]
# The largest distance of a gradient from that of the mean cross-entropy, as a share of the latter's norm.
SAME_LOSS = 1e-3


@dataclass(frozen=True)
class Round:
    """What a client does in one round.

    model: as it was sent, in the mode in which it trains.
    inputs: [n, …], each private record once.
    targets: [n], the targets of these records.
    update: parameter → what is sent back: new minus old weights if `kind` is `model`, else the gradient.
    Parameters that are not trained are not in it.
    kind: `model` or `gradient`.
    lr: the rate of the optimiser.
    steps: how often each record was used.
    batch_size: the number of records in a step, or None for all records.
    optimiser: the name and the settings of the optimiser.
    plain_loss: whether the loss is the mean cross-entropy of what the model returns.
    plain_steps: whether the optimiser is SGD without momentum and weight decay.
    """

    model: nn.Module
    inputs: Tensor
    targets: Tensor
    update: Tensors
    kind: str
    lr: float
    steps: int = 1
    batch_size: int | None = None
    optimiser: str = "SGD"
    plain_loss: bool = True
    plain_steps: bool = True


def entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [n, classes], or of one logit of two classes: [n] or [n, 1]."""
    if output.dim() == 1 or output.shape[1] == 1:
        return binary_cross_entropy_with_logits(output.flatten(), targets.flatten().to(output))
    return cross_entropy(output, targets)


@dataclass(frozen=True)
class Client:
    """A client's training, which can be played with other records or another network.

    model: in the mode in which it trains.
    loss: (what the model returns, targets) → the loss.
    inputs: [n, …]; the first `records` are the client's own, and the others stand for other clients.
    targets: [n], the targets of these inputs.
    records: the number of the client's own records.
    local_steps: the number of steps of plain SGD, each on all the client's records.
    lr: the rate of these steps.
    validation: inputs and targets on which accuracy is measured, or None.
    """

    model: nn.Module
    loss: Loss
    inputs: Tensor
    targets: Tensor
    records: int
    local_steps: int = 5
    lr: float = 0.01
    validation: tuple[Tensor, Tensor] | None = None

    def play(self) -> Round:
        """Train the model, restore its weights and return the round.

        A client with one step sends its gradient (FedSGD), and a client with several steps sends weights
        (FedAvg). Raises UserError if the model cannot be trained.
        """
        inputs, targets = self.inputs[: self.records], self.targets[: self.records]
        with failing("the model cannot be copied"):
            start = deepcopy(self.model)
        with torch.random.fork_rng(), torch.enable_grad():
            try:
                first, moved = self._trained(inputs, targets)
            finally:
                self.model.load_state_dict(start.state_dict())
            torch.manual_seed(0)
            plain = _gradient(deepcopy(start), entropy, inputs, targets)
        one = self.local_steps == 1
        update = first if one else moved
        return Round(
            start, inputs, targets, finite(update), "gradient" if one else "model", self.lr, self.local_steps,
            optimiser=f"SGD at rate {self.lr:g}", plain_loss=alike(first, plain),
        )  # fmt: skip

    def _trained(self, inputs: Tensor, targets: Tensor) -> tuple[Tensors, Tensors]:
        """Train the client's own network, and return the first gradient and how far parameters moved.

        Parameters that are not trained are in neither. The network is not a copy, because a loss may read the
        network itself, for example to punish large weights.
        """
        sent = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        moved: set[str] = set()
        torch.manual_seed(0)
        first = gradient = _gradient(self.model, self.loss, inputs, targets)
        for step in range(self.local_steps if self.local_steps > 1 else 0):
            gradient = _gradient(self.model, self.loss, inputs, targets) if step else first
            moved |= gradient.keys()
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    if name in gradient:
                        parameter.sub_(gradient[name], alpha=self.lr)
        return first, {n: p.detach() - sent[n] for n, p in self.model.named_parameters() if n in moved}

    def reads_network(self) -> bool:
        """Return whether the loss reads the network itself, in addition to what the network returns.

        If so, no other network can take its place.
        """
        found = []
        start = deepcopy(self.model)
        inputs, targets = self.inputs[: self.records], self.targets[: self.records]
        with torch.random.fork_rng(), torch.enable_grad():
            for model in (self.model, deepcopy(start)):
                torch.manual_seed(0)
                found.append(_gradient(model, self.loss, inputs, targets))
        self.model.load_state_dict(start.state_dict())
        return not alike(*found)


def client(made: Any, records: int | None = None, local_steps: int = 5, lr: float = 0.01) -> Client:
    """Return the client of (model, loss, batch) or (model, loss, batch, validation).

    made: one of these tuples.
    records: how many records of the batch are the client's own, or None for all.
    local_steps: the number of steps of plain SGD, at least 1.
    lr: the rate of these steps, above 0.

    Raises UserError for models, losses and batches that cannot be audited.
    """
    if not isinstance(local_steps, Integral) or isinstance(local_steps, bool) or local_steps < 1:
        raise UserError(f"local_steps is {local_steps!r}, not a whole number above 0")
    if not is_rate(lr):
        raise UserError(f"lr is {lr!r}, not a rate above 0")
    if not isinstance(made, tuple | list) or len(made) not in (3, 4):
        raise UserError(f"returned {type(made).__name__}, not (model, loss, batch)")
    model, loss, batch, *rest = made
    if not isinstance(model, nn.Module):
        raise UserError(f"the model is {type(model).__name__}, not a torch.nn.Module")
    model = uncompiled(model)
    if not callable(loss):
        raise UserError(f"the loss is {type(loss).__name__}, not a function of scores and targets")
    if not list(model.parameters()):
        raise UserError("the model has no parameters")
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise UserError(f"{name} has no shape yet (call the model once, on a batch)")
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise UserError(
                f"{name} is {parameter.dtype} on {parameter.device}, and an audit takes networks in "
                "torch.float32 on the CPU (model.float().cpu())"
            )
    inputs, targets = _records(batch)
    if records is not None and records > len(inputs):
        raise UserError(f"the batch has {len(inputs)} records, fewer than --batch {records}")
    return Client(
        model, loss, inputs, targets, records or len(inputs), int(local_steps), float(lr),
        _records(rest[0]) if rest else None,
    )  # fmt: skip


def uncompiled(model: nn.Module) -> nn.Module:
    """Return the network that torch.compile wraps, or the network as it is if it is not compiled.

    A compiled network computes the same numbers and hides its layers. An attacker has its code, and need not
    compile it.
    """
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else model


def finite(update: Tensors) -> Tensors:
    """Return an update as it is.

    Raises UserError if the update holds NaN or Inf, because no attack reads anything out of it.
    """
    for name, value in update.items():
        if not bool(value.isfinite().all()):
            raise UserError(f"the update of {name} holds NaN or Inf (does this training converge?)")
    return update


def alike(found: Tensors, plain: Tensors) -> bool:
    """Return whether two gradients differ by less than SAME_LOSS, relative to the second.

    A parameter that only one of them has is zero in the other.
    """
    zero = torch.zeros(())
    apart = sum(
        float((found.get(name, zero) - plain.get(name, zero)).square().sum())
        for name in found.keys() | plain.keys()
    )
    whole = sum(float(value.square().sum()) for value in plain.values())
    return apart <= SAME_LOSS**2 * whole


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Raise UserError, which says `what`, for any exception that somebody's own code raises in the block.

    A UserError of our own stays as it is.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{what} ({one_line(problem)})") from problem


def scores(model: nn.Module, inputs: Tensor, of: str = "the batch") -> Tensor:
    """Return what a model returns for inputs, which it may change in place.

    model: the network.
    inputs: one batch of them.
    of: the name of the inputs in messages.

    Raises UserError unless the model returns one row of numbers for each input.
    """
    with failing(f"the model fails on {of}, or does not take one batch of inputs alone"):
        output = model(inputs)
    if not isinstance(output, Tensor) or output.dim() not in (1, 2) or len(output) != len(inputs):
        what = f"{tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UserError(
            f"the model returns {what} of {of}, and an audit needs one row of class scores a record"
        )
    return output


def _gradient(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensors:
    """Return the gradient of each parameter that is trained.

    Frozen parameters are not trained, nor are those that the loss does not depend on. Raises UserError if the
    model or the loss fails, or if no parameter is trained.
    """
    output = scores(model, inputs.clone())
    parameters = trainable(model)
    if not parameters:
        raise UserError("no parameter is trained (set requires_grad of those that the client trains)")
    with failing("the loss fails on what the model returns"):
        value = loss(output, targets.clone())
        if not value.requires_grad:
            raise UserError(
                "the loss depends on no parameter that is trained (is the model called under torch.no_grad?)"
            )
        found = torch.autograd.grad(value, list(parameters.values()), allow_unused=True)
    return {name: each.detach() for name, each in zip(parameters, found, strict=True) if each is not None}


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters of a model that are not frozen, by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def untrained(model: nn.Module, sent: Collection[str]) -> str:
    """Return in words how many tensors of a model are not trained; empty if all are.

    model: the network.
    sent: the names of the parameters of which something is sent.
    """
    names = [name for name, _ in model.named_parameters()]
    missing = sum(name not in sent for name in names)
    return f"{missing} of {len(names)} tensors" if missing else ""


def _records(batch: Any) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a batch. Raises UserError for a batch that cannot be audited."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        size = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
        raise UserError(
            f"the batch is {type(batch).__name__}{size}, not (inputs, targets): models with several inputs "
            "are not audited"
        )
    with failing("the batch is no pair of tensors"):
        inputs, targets = (
            part if isinstance(part, tuple | list | dict) else torch.as_tensor(part).detach().cpu().to_dense()
            for part in batch
        )
    if not isinstance(inputs, Tensor) or not isinstance(targets, Tensor):
        raise UserError("the batch has several inputs or targets: such models are not audited")
    if not inputs.is_floating_point():
        raise UserError(
            f"the inputs are {inputs.dtype}, not real numbers: text and categories are not audited"
        )
    if not 2 <= inputs.dim() <= 4 or not inputs.numel() or targets.shape[:1] != inputs.shape[:1]:
        raise UserError(
            f"inputs {tuple(inputs.shape)} and targets {tuple(targets.shape)} are no batch of records"
        )
    if targets.dtype == torch.bool or targets.is_complex():
        raise UserError(f"the targets are {targets.dtype}, not numbers of classes (targets.long())")
    if targets.dim() > 1 and targets.shape[1:] != (1,):
        raise UserError(f"targets {tuple(targets.shape)} are no classes: only classification is audited")
    if not bool(inputs.isfinite().all()):
        raise UserError("the inputs hold NaN or Inf")
    odd = targets[(targets != targets.round()) | (targets < 0)]
    if len(odd):
        raise UserError(f"targets such as {float(odd[0]):.3g} are no classes: only classification is audited")
    return inputs, targets
