"""What a client does in one round, and what an audit may ask of somebody's own network."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.utils._pytree import tree_leaves

from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors

# The largest number of letters that are kept of a message that leakbench did not write.
LONGEST = 200
# Advice of the catalogue's attacks, which names options that an audit does not have.
_ADVICE = re.compile(r" \((?:set|leave) [^()]*\)")
# The name of a tensor, in the error of an attack that looked for it among those that were sent.
_TENSOR = re.compile(r"(?:network\.)?([\w.]+\.(?:weight|bias))")
# The loss that most attacks take for granted, in words.
PLAIN = "mean cross-entropy"


@dataclass(frozen=True)
class Round:
    """What a client does in one round."""

    # As it was sent, in float32, in the mode in which it trains.
    model: nn.Module
    # [n, …], each private record once, and its targets, None if they were not seen.
    inputs: Tensor
    targets: Tensor | None
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
    # Whether the update is one of the mean cross-entropy of what the model returns, and whether the optimiser
    # is SGD without momentum and weight decay.
    plain_loss: bool = True
    plain_steps: bool = True
    loss: str = PLAIN
    # Kind → what the replay found beside plain training, in words. How many steps it computed, of how many.
    differs: dict[str, str] = field(default_factory=dict)
    replayed: tuple[int, int] = (0, 0)
    # In which precisions below float32 layers compute.
    precision: str = ""

    def least(self) -> bool:
        """Return whether attacks take this training for another one, so that more may be found."""
        steps = self.plain_steps or (self.replayed == (1, 1) and "steps" not in self.differs)
        return (
            not (self.plain_loss and steps)
            or bool(self.differs.keys() & {"unknown", "unchecked"})
            or bool(self.precision)
        )


def one_line(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:LONGEST].removesuffix(":")


def reason(problem: Exception) -> str:
    """Return why something gave no result, in one line."""
    # Any exception may come here, because the networks are somebody's own.
    if isinstance(problem, UserError):
        return _ADVICE.sub("", str(problem).removeprefix("attack: "))
    if isinstance(problem, KeyError) and (tensor := _TENSOR.fullmatch(str(problem.args[0]))):
        return f"it needs the update of {tensor[1]}, which is not sent under this name"
    return f"fails on this network ({one_line(problem)})"


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Raise UserError, which says `what`, for any exception that somebody's own code raises in the block."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{what} ({one_line(problem)})") from problem


def entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [n, classes], or of one logit of two classes: [n] or [n, 1]."""
    if output.dim() == 1 or output.shape[1] == 1:
        return binary_cross_entropy_with_logits(output.flatten(), targets.flatten().to(output))
    return cross_entropy(output, targets.flatten().long())


def classes_in(targets: Tensor | None, scores: Tensor) -> bool:
    """Return whether each of these targets is one class of scores [n, classes], or of a single logit."""
    if targets is None or targets.numel() != len(scores) or scores.dim() > 2:
        return False
    most = max(2, scores[0].numel())
    return bool(((targets == targets.round()) & (targets >= 0) & (targets < most)).all())


def leaves(output: Any) -> list[Tensor]:
    """Return the tensors of real numbers in what a model returns, in order, also those in an object."""
    known = isinstance(output, Tensor | dict | tuple | list) or not hasattr(output, "__dict__")
    found = tree_leaves((dict(output) if isinstance(output, dict) else output) if known else vars(output))
    return [each for each in found if isinstance(each, Tensor) and each.is_floating_point()]


def scores(output: Any, records: int, of: str = "the batch") -> Tensor:
    """Return what a model returned for each record: the first tensor with one row for each of them."""
    # Raises UserError, which calls the inputs `of`, if there is none.
    found = [each for each in leaves(output) if each.dim() and len(each) == records]
    if not found:
        what = f"{tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UserError(f"the model returns {what} of {of}, and an audit needs one row of numbers a record")
    return found[0]


@contextmanager
def precisions_in(model: nn.Module, found: set[str]) -> Iterator[None]:
    """Add to `found` each precision below float32 in which a layer of a model computes in the block."""

    def note(_: nn.Module, __: Any, output: Any) -> None:
        low = {each.dtype for each in leaves(output)} - {torch.float32, torch.float64}
        found.update(str(each).removeprefix("torch.") for each in low)

    handles = [layer.register_forward_hook(note) for layer in model.modules() if not list(layer.children())]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def uncompiled(model: nn.Module) -> nn.Module:
    """Return the network within what torch.compile, DataParallel or Opacus put around it."""
    # An attacker has the code of the network, and need not wrap it.
    for name in ("_orig_mod", "_module", "module"):
        inner = getattr(model, name, None)
        if isinstance(inner, nn.Module) and len(list(model.children())) == 1 and not list(
            model.parameters(recurse=False)
        ) and type(model).__module__.startswith(("torch.", "opacus.")):  # fmt: skip
            return uncompiled(inner)
    return model


def finite(update: Tensors) -> Tensors:
    """Return an update as it is. Raises UserError for NaN or Inf, out of which no attack reads anything."""
    for name, value in update.items():
        if not bool(value.isfinite().all()):
            raise UserError(f"the update of {name} holds NaN or Inf (does this training converge?)")
    return update


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def untrained(model: nn.Module, sent: Collection[str]) -> str:
    """Return in words how many tensors of a model are not in `sent`; empty if all are."""
    names = [name for name, _ in model.named_parameters()]
    missing = sum(name not in sent for name in names)
    return f"{missing} of {len(names)} tensors" if missing else ""
