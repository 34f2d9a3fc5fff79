"""Watches somebody's own local training while it runs, and reads the round off it."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from leakbench.audit.round import Client, Round, alike, finite, uncompiled
from leakbench.audit.times import is_rate
from leakbench.base.errors import UserError

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
        """Leave a module."""
        self.depth -= 1

    def step(self, optimiser: torch.optim.Optimizer, *_: Any) -> None:
        """Note a step of an optimiser."""
        self.steps.append(optimiser)

    def read(self) -> Round:
        """Return the round that was trained. Raises UserError if it cannot be audited."""
        return _read(self)


def watched(train: Callable[[], Any]) -> tuple[Any, Watch]:
    """Call somebody's function once, and return its result and what was seen of its training.

    The first network that the function calls is taken for the client's network. The inputs of that network
    are taken for the private records, and the targets of the cross-entropy for the labels.
    """
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


def _read(watch: Watch) -> Round:
    if watch.model is None or watch.sent is None or not watch.steps:
        raise UserError("neither returned (model, loss, batch) nor took a step of an optimiser")
    if watch.several:
        raise UserError("the model takes several inputs: such models are not audited")
    if len(watch.targets) != len(watch.inputs):
        raise UserError(
            f"{len(watch.inputs)} batches but {len(watch.targets)} cross-entropies were seen: only "
            "classification by cross-entropy is audited"
        )
    inputs, targets = torch.cat(watch.inputs), torch.cat(watch.targets)
    if not inputs.is_floating_point() or not 2 <= inputs.dim() <= 4 or targets.dim() > 2:
        raise UserError(f"inputs {tuple(inputs.shape)} of {inputs.dtype} are no batch of records or images")
    first = _first(inputs.flatten(1))
    records, steps, size = len(first), len(watch.steps), len(watch.inputs[0])
    sent, group = dict(watch.sent.named_parameters()), watch.steps[0].param_groups[0]
    stepped = {id(p) for step in watch.steps for each in step.param_groups for p in each["params"]}
    trained = {n: p for n, p in uncompiled(watch.model).named_parameters() if id(p) in stepped}
    update = finite({n: p.detach() - sent[n].detach() for n, p in trained.items() if p.requires_grad})
    if not update:
        raise UserError("no parameter of the model is trained (give the optimiser those of this model)")
    lr = float(group["lr"])
    if not is_rate(lr):
        raise UserError(f"the optimiser's rate is {lr:g}, not above 0")
    kept = {name: group[name] for name in ("momentum", "weight_decay") if group.get(name)}
    name = type(watch.steps[0]).__name__
    told = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in kept.items())
    own = Client(
        watch.sent, cross_entropy, inputs[first], targets[first], records, max(1, len(inputs) // records), lr
    )
    plain_steps = name == "SGD" and not kept
    # A single plain step can be repeated, which tells whether the loss has other terms.
    again = own.play() if plain_steps and steps == 1 else None
    plain = again is None or alike(
        {n: -v / lr for n, v in update.items()}, {n: v for n, v in again.update.items() if n in update}
    )
    return Round(
        watch.sent, inputs[first], targets[first], update, "model", lr, own.local_steps,
        None if size >= records else size, f"{name} at rate {lr:g}" + (f", {told}" if told else ""), plain,
        plain_steps,
    )  # fmt: skip


def _first(rows: Tensor) -> Tensor:
    """Return the indices of rows [n, values] that differ from all rows before them, in order."""
    seen: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        seen.setdefault(row.numpy().tobytes(), number)
    return torch.tensor(list(seen.values()))
