"""What the server sees of a round, as an observation for attacks, and the truth by which they are scored."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.functional import batch_norm, relu6
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from leakbench.audit.round import PLAIN, Round, classes_in, failing, leaves, scores, untrained
from leakbench.networks.layers import Normalise
from leakbench.observations.observation import Observation

# The label of a record whose target is no class. No attack names it.
UNKNOWN = -2


@dataclass(frozen=True)
class Truth:
    """The private records, and records of other clients if there are any."""

    # [n, channels, rows, columns] from 0 to 1; a record of k numbers has k channels of one row and column.
    images: Tensor
    # [n], all UNKNOWN if the targets are no classes.
    labels: Tensor
    others: Tensor | None = None


class Scores(nn.Module):
    """What a network returns as one row of numbers a record; one logit z of two classes as 0 and z."""

    def forward(self, output: Any) -> Tensor:
        rows = output if isinstance(output, Tensor) else scores(output, len(leaves(output)[0]))
        rows = (rows if rows.element_size() > 2 else rows.float()).reshape(len(rows), -1)
        return rows if rows.shape[1] > 1 else torch.cat([torch.zeros_like(rows), rows], 1)


class Hard(nn.Module):
    """Hardsigmoid, or Hardswish, by an activation whose derivative can be differentiated in its turn."""

    def __init__(self, swish: bool) -> None:
        super().__init__()
        self.swish = swish

    def forward(self, x: Tensor) -> Tensor:
        gate = relu6(x + 3) / 6
        return x * gate if self.swish else gate


class Partial(nn.Sequential):
    """A network of which some parameters are not trained, or that computes below float32."""

    # The engine that takes a network apart into layers (`matching.chain`) takes each layer for one that is
    # trained whole. This network cannot be traced, so that an engine is chosen that asks for each parameter.

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Proxy):
            raise TypeError("some parameters are not trained")
        with in_float32():
            found: Tensor = super().forward(x)
        return found


class Still(nn.Module):
    """A batch norm that goes by the statistics that were sent, in a network whose others go by the batch."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.eps: float = norm.eps  # type: ignore[assignment]
        for name, value in norm._parameters.items():
            self.register_parameter(name, value)
        for name, buffer in norm._buffers.items():
            self.register_buffer(name, buffer)

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = (self.get_buffer(name) for name in ("running_mean", "running_var"))
        # They are parameters if they are trained, buffers if not, and None if the norm has none.
        scale, shift = (getattr(self, name, None) for name in ("weight", "bias"))
        return batch_norm(x, mean, variance, scale, shift, training=False, eps=self.eps)


@contextmanager
def in_float32() -> Iterator[None]:
    """Compute in float32 where a network asks for autocast: searches take second derivatives."""
    own = torch.autocast.__enter__, torch.autocast.__exit__
    torch.autocast.__enter__ = lambda self: self  # type: ignore[method-assign]
    torch.autocast.__exit__ = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.autocast.__enter__, torch.autocast.__exit__ = own  # type: ignore[method-assign]


def view(played: Round, others: Tensor | None = None) -> tuple[Observation, Truth]:
    """Return what the server sees of a round, and the truth, with inputs of other clients."""
    mean, deviation, images = unit(played.inputs)
    model = wrapped(played.model, played.inputs, mean, deviation, played.update, played.precision)
    channels, rows, columns = images.shape[1:]
    with torch.no_grad():
        one = model.eval()(images[:1])
    classes, targets = one.shape[1], played.targets
    labels = torch.full((len(images),), UNKNOWN)
    if targets is not None and classes_in(targets, one.expand(len(images), -1)):
        labels = targets.flatten().long()
    weights = {name: value.detach().cpu().numpy()[None].copy() for name, value in model.state_dict().items()}
    observation = Observation(
        network={"shape": [rows, columns, channels], "classes": classes},
        weights=weights,
        updates={f"network.{n}": v.float().cpu().numpy()[None, None] for n, v in played.update.items()},
        origin=np.zeros(1, np.int64),
        clients=[len(images)],
        kind="gradient" if played.kind == "gradient" else "model",
        mode="train" if batch_statistics(played.model) else "eval",
        dropout=drops(played.model, played.inputs),
        local={
            "lr": played.lr,
            "batch_size": played.batch_size,
            "epochs": played.steps,
            "loss": PLAIN if played.plain_loss else "another",
            **({"optimiser": "adam"} if "Adam" in played.optimiser else {}),
        },
        own=model,
    )
    if others is not None:
        others = others.reshape(-1, *images.shape[1:]) * deviation[:, None, None] + mean[:, None, None]
    return observation, Truth(images, labels, others)


def plain(observation: Observation) -> bool:
    """Return whether clients are taken to train by the mean cross-entropy, as they are unless it is known."""
    return bool(observation.local.get("loss", PLAIN) == PLAIN)


def drops(model: nn.Module, inputs: Tensor) -> bool:
    """Return whether a model drops units, or draws anything else, while it trains."""
    # A model that calls a function for that has no layer of it. So the model reads the same inputs twice,
    # each time with chance of its own.
    if any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in model.modules()):
        return True
    # A batch of an example may be too small for a batch norm that trains.
    with torch.random.fork_rng(), torch.no_grad(), suppress(Exception):
        first, second = (_drawn(model, inputs, seed) for seed in range(2))
        return not torch.allclose(first, second, rtol=1e-3, atol=1e-5)
    return False


def _drawn(model: nn.Module, inputs: Tensor, seed: int) -> Tensor:
    torch.manual_seed(seed)
    found: Tensor = deepcopy(model)(inputs.clone())
    return found


def batch_statistics(model: nn.Module) -> bool:
    """Return whether batch norms use the statistics of the batch at hand while the model trains."""
    return any(_of_batch(m) for m in model.modules() if isinstance(m, _BatchNorm))


def _of_batch(norm: _BatchNorm) -> bool:
    return norm.training or norm.running_mean is None


def wrapped(
    model: nn.Module, inputs: Tensor, mean: Tensor, deviation: Tensor, sent: Collection[str],
    precision: str = "",
) -> nn.Module:  # fmt: skip
    """Return a copy of a model that reads values from 0 to 1 and returns logits [n, classes]."""
    # The copy reads [n, channels, rows, columns]. Its tensors have the prefix "network.". Parameters that are
    # not in `sent` become buffers, so that no attack takes them for parameters that did not change.
    parts: dict[str, nn.Module] = {}
    if mean.any() or (deviation != 1).any():
        parts["normalise"] = Normalise(mean[:, None, None], deviation[:, None, None])
    if inputs.dim() == 2:
        parts["flatten"] = nn.Flatten()
    elif inputs.dim() == 3:
        parts["flatten"] = nn.Flatten(1, 2)
    parts["network"] = fixed(deepcopy(model), sent)
    of_batch = batch_statistics(model)
    for name, layer in list(parts["network"].named_modules(remove_duplicate=False)):
        other: nn.Module = layer
        if of_batch and isinstance(layer, _BatchNorm) and not _of_batch(layer):
            other = Still(layer)
        elif isinstance(layer, nn.Hardswish | nn.Hardsigmoid):
            other = Hard(isinstance(layer, nn.Hardswish))
        if other is not layer and name:
            parent, _, own = name.rpartition(".")
            setattr(parts["network"].get_submodule(parent), own, other)
    seen = inputs[:1].clone()
    with torch.no_grad(), failing("the model fails on one record alone, in evaluation"):
        output = deepcopy(model).eval()(seen)
    rows = scores(output, 1, "one record alone, in evaluation")
    if not torch.equal(seen, inputs[:1]):
        parts["network"].register_forward_pre_hook(_copied)
    if not isinstance(output, Tensor) or rows.dim() != 2 or rows.shape[1] == 1:
        parts["scores"] = Scores()
    whole = all(name in sent for name, _ in model.named_parameters())
    found = nn.Sequential() if whole and not precision else Partial()
    for name, part in parts.items():
        found.add_module(name, part)
    return found


def fixed(model: nn.Module, trained: Collection[str]) -> nn.Module:
    """Make each parameter of a model that is not trained a buffer, in place, and return the model."""
    kept = {id(value) for name, value in model.named_parameters() if name in trained}
    for layer in model.modules():
        for name, value in list(layer.named_parameters(recurse=False)):
            if id(value) not in kept:
                delattr(layer, name)
                layer.register_buffer(name, value.detach())
                # A recurrent layer has a list of its weights, which this keeps up to date.
                setattr(layer, name, layer.get_buffer(name))
    return model


def _copied(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return copies of inputs, for a network that changes them in place: attacks use these inputs again."""
    return tuple(each.clone() for each in inputs)


def unit(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and deviation by which values from 0 to 1 become inputs, and these values."""
    # Pixels from 0 to 1 or from 0 to 255 have that range. For other inputs, the range of each channel is
    # taken from the batch. Each number of a record without rows and columns is a channel.
    images: Tensor = {
        2: lambda: inputs[:, :, None, None], 3: lambda: inputs[:, None], 4: lambda: inputs
    }[inputs.dim()]()  # fmt: skip
    images = images.float()
    channels = images.shape[1]
    low, high = float(images.min()), float(images.max())
    if low >= 0 and (high <= 1 or (inputs.dim() > 2 and 2 < high <= 255)):
        lows, widths = torch.zeros(channels), torch.full((channels,), 1.0 if high <= 1 else 255.0)
    else:
        lows = images.amin((0, 2, 3))
        widths = images.amax((0, 2, 3)) - lows
        widths = torch.where(widths > 0, widths, 1.0)
    unit = (images - lows[:, None, None]) / widths[:, None, None]
    return -lows / widths, 1 / widths, unit


def facts(played: Round, observation: Observation) -> dict[str, Any]:
    """Return the facts of a round that were read off the client's code: name → words or number."""
    shape = list(played.inputs.shape[1:])
    low, high = float(played.inputs.min()), float(played.inputs.max())
    norms = {n: _of_batch(m) for n, m in played.model.named_modules() if isinstance(m, _BatchNorm)}
    still = [name for name, of_batch in norms.items() if not of_batch]
    norm = "none" if not norms else "the batch at hand" if not still else "sent statistics"
    if still and len(still) < len(norms):
        norm = f"mixed: sent statistics in {', '.join(still[:3])}{' …' if len(still) > 3 else ''}"
    buffers = len(played.model.state_dict()) - len(list(played.model.named_parameters()))
    frozen = untrained(played.model, played.update)
    return {
        "network": type(played.model).__name__,
        "parameters": sum(p.numel() for p in played.model.parameters()),
        **({"not trained": frozen} if frozen else {}),
        "input": f"{' × '.join(map(str, shape))}, from {low:.3g} to {high:.3g}",
        "classes": observation.network["classes"],
        "records": len(played.inputs),
        "local steps": played.steps,
        "optimiser": played.optimiser,
        "sends": "one gradient" if played.kind == "gradient" else "new weights",
        "batch norm by": norm,
        "dropout": "yes" if observation.dropout else "no",
        "buffers sent": buffers,
        "loss": played.loss,
        "computes in": f"{played.precision} (and float32)" if played.precision else "float32",
        "computed again": f"{played.replayed[0]} of {played.replayed[1]} steps",
    }
