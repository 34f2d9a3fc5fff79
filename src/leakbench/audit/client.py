"""One round of one client, read off somebody's own code: what it was sent, trained on and sends back."""

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from leakbench.audit.options import is_rate
from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors

# The largest number of letters that are kept of a message that leakbench did not write.
LONGEST = 200
# Advice of the catalogue's attacks, which names options that an audit does not have.
_ADVICE = re.compile(r" \((?:set|leave) [^()]*\)")
# The name of a tensor, in the error of an attack that looked for it among those that were sent.
_TENSOR = re.compile(r"(?:network\.)?([\w.]+\.(?:weight|bias))")


def one_line(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:LONGEST].removesuffix(":")


def reason(problem: Exception) -> str:
    """Return why something gave no result, in one line."""
    # Any exception may come here, because the networks are somebody's own and do what none of the catalogue
    # does.
    if isinstance(problem, UserError):
        return _ADVICE.sub("", str(problem).removeprefix("attack: "))
    if isinstance(problem, KeyError) and (tensor := _TENSOR.fullmatch(str(problem.args[0]))):
        return f"it needs the update of {tensor[1]}, which is not sent under this name"
    return f"fails on this network ({one_line(problem)})"


Loss = Callable[[Any, Any], Tensor]
# The largest distance of a gradient from that of the mean cross-entropy, as a share of the latter's norm.
SAME_LOSS = 1e-3


@dataclass(frozen=True)
class Round:
    """What a client does in one round."""

    # As it was sent, in the mode in which it trains.
    model: nn.Module
    # [n, …] and [n], each private record once.
    inputs: Tensor
    targets: Tensor
    # Parameter that is trained → new minus old weights if `kind` is `model`, else (`gradient`) the gradient.
    update: Tensors
    kind: str
    lr: float
    # How often each record was used.
    steps: int = 1
    # None: all records in each step.
    batch_size: int | None = None
    # Its name and its settings.
    optimiser: str = "SGD"
    # Whether the loss is the mean cross-entropy of what the model returns, and whether the optimiser is SGD
    # without momentum and weight decay.
    plain_loss: bool = True
    plain_steps: bool = True


def entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [n, classes], or of one logit of two classes: [n] or [n, 1]."""
    if output.dim() == 1 or output.shape[1] == 1:
        return binary_cross_entropy_with_logits(output.flatten(), targets.flatten().to(output))
    return cross_entropy(output, targets)


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
    local_steps: int = 5
    lr: float = 0.01
    validation: tuple[Tensor, Tensor] | None = None

    def play(self) -> Round:
        """Train the model, restore its weights and return the round."""
        # A client with one step sends its gradient (FedSGD), one with several steps sends weights (FedAvg).
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
        """Train the client's own network, and return the first gradient and how far parameters moved."""
        # It is not a copy, because a loss may read the network itself, for example to punish large weights.
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
        """Return whether the loss reads the network itself, so that no other can take its place."""
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
    """Return the network without torch.compile, which hides its layers."""
    # An attacker has the code of the network, and need not compile it.
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else model


def finite(update: Tensors) -> Tensors:
    """Return an update as it is. Raises UserError for NaN or Inf, out of which no attack reads anything."""
    for name, value in update.items():
        if not bool(value.isfinite().all()):
            raise UserError(f"the update of {name} holds NaN or Inf (does this training converge?)")
    return update


def alike(found: Tensors, plain: Tensors) -> bool:
    """Return whether two gradients differ by less than SAME_LOSS, relative to the second."""
    # A parameter that only one of them has is zero in the other.
    zero = torch.zeros(())
    apart = sum(
        float((found.get(name, zero) - plain.get(name, zero)).square().sum())
        for name in found.keys() | plain.keys()
    )
    whole = sum(float(value.square().sum()) for value in plain.values())
    return apart <= SAME_LOSS**2 * whole


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Raise UserError, which says `what`, for any exception that somebody's own code raises in the block."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{what} ({one_line(problem)})") from problem


def scores(model: nn.Module, inputs: Tensor, of: str = "the batch") -> Tensor:
    """Return what a model returns for inputs, which it may change in place."""
    # Raises UserError, which calls the inputs `of`, unless it returns one row of numbers for each input.
    with failing(f"the model fails on {of}, or does not take one batch of inputs alone"):
        output = model(inputs)
    if not isinstance(output, Tensor) or output.dim() not in (1, 2) or len(output) != len(inputs):
        what = f"{tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UserError(
            f"the model returns {what} of {of}, and an audit needs one row of class scores a record"
        )
    return output


def _gradient(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> Tensors:
    """Return the gradient of each parameter that is trained and on which the loss depends."""
    # Raises UserError if the model or the loss fails, or if no parameter is trained.
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
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def untrained(model: nn.Module, sent: Collection[str]) -> str:
    """Return in words how many tensors of a model are not in `sent`; empty if all are."""
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


_LOSSES = (cross_entropy, binary_cross_entropy_with_logits)


class Watch(TorchFunctionMode):
    """Keeps what goes into the network and the loss, and which steps the optimiser takes."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.model: nn.Module | None = None
        self.sent: nn.Module | None = None
        self.inputs: list[Tensor] = []
        self.targets: list[Tensor] = []
        self.steps: list[torch.optim.Optimizer] = []
        self.several = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function in _LOSSES and torch.is_grad_enabled():
            self.targets.append((args[1] if len(args) > 1 else kwargs["target"]).detach().clone())
        return function(*args, **kwargs)

    def before(self, module: nn.Module, inputs: Any) -> None:
        """Note the batch that the outermost network reads."""
        self.depth += 1
        if self.depth > 1 or not torch.is_grad_enabled() or next(module.parameters(), None) is None:
            return
        if self.model is None:
            self.model, self.sent = module, deepcopy(uncompiled(module))
        if module is self.model:
            tensors = [value for value in inputs if isinstance(value, Tensor)]
            self.several |= len(inputs) != 1 or len(tensors) != 1
            self.inputs.extend(value.detach().clone() for value in tensors[:1])

    def after(self, *_: Any) -> None:
        self.depth -= 1

    def step(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        self.steps.append(optimiser)

    def read(self) -> Round:
        """Return the round that was trained. Raises UserError if it cannot be audited."""
        if self.model is None or self.sent is None or not self.steps:
            raise UserError("neither returned (model, loss, batch) nor took a step of an optimiser")
        if self.several:
            raise UserError("the model takes several inputs: such models are not audited")
        if len(self.targets) != len(self.inputs):
            raise UserError(
                f"{len(self.inputs)} batches but {len(self.targets)} cross-entropies were seen: only "
                "classification by cross-entropy is audited"
            )
        inputs, targets = torch.cat(self.inputs), torch.cat(self.targets)
        if not inputs.is_floating_point() or not 2 <= inputs.dim() <= 4 or targets.dim() > 2:
            shape = tuple(inputs.shape)
            raise UserError(f"inputs {shape} of {inputs.dtype} are no batch of records or images")
        first = _first(inputs.flatten(1))
        records, steps, size = len(first), len(self.steps), len(self.inputs[0])
        sent, group = dict(self.sent.named_parameters()), self.steps[0].param_groups[0]
        stepped = {id(p) for step in self.steps for each in step.param_groups for p in each["params"]}
        trained = {n: p for n, p in uncompiled(self.model).named_parameters() if id(p) in stepped}
        update = finite({n: p.detach() - sent[n].detach() for n, p in trained.items() if p.requires_grad})
        if not update:
            raise UserError("no parameter of the model is trained (give the optimiser those of this model)")
        lr = float(group["lr"])
        if not is_rate(lr):
            raise UserError(f"the optimiser's rate is {lr:g}, not above 0")
        kept = {name: group[name] for name in ("momentum", "weight_decay") if group.get(name)}
        name = type(self.steps[0]).__name__
        told = "".join(f", {key.replace('_', ' ')} {value:g}" for key, value in kept.items())
        once, labels = inputs[first], targets[first]
        own = Client(self.sent, cross_entropy, once, labels, records, max(1, len(inputs) // records), lr)
        plain_steps = name == "SGD" and not kept
        # A single plain step can be repeated, which tells whether the loss has other terms.
        again = own.play() if plain_steps and steps == 1 else None
        plain = again is None or alike(
            {n: -v / lr for n, v in update.items()}, {n: v for n, v in again.update.items() if n in update}
        )
        return Round(
            self.sent, once, labels, update, "model", lr, own.local_steps,
            None if size >= records else size, f"{name} at rate {lr:g}{told}", plain, plain_steps,
        )  # fmt: skip


def watched(train: Callable[[], Any]) -> tuple[Any, Watch]:
    """Call somebody's function once, and return its result and what was seen of its training."""
    # The first network that it calls is the client's, that network's inputs are the private records, and the
    # targets of the cross-entropy are their labels.
    watch = Watch()
    handles = [
        register_module_forward_pre_hook(watch.before),
        register_module_forward_hook(watch.after, always_call=True),
        register_optimizer_step_pre_hook(watch.step),
    ]
    try:
        with watch:
            returned = train()
    finally:
        for handle in handles:
            handle.remove()
    return returned, watch


def _first(rows: Tensor) -> Tensor:
    """Return the indices of rows [n, values] that differ from all rows before them, in order."""
    seen: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        seen.setdefault(row.numpy().tobytes(), number)
    return torch.tensor(list(seen.values()))
