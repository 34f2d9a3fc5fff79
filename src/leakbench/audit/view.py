"""What the server sees of a round, as an observation for attacks, and the truth by which they are scored."""

from collections.abc import Collection
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from leakbench.audit.client import Round, scores, untrained
from leakbench.networks.layers import Normalise
from leakbench.observations.observation import Observation


@dataclass(frozen=True)
class Truth:
    """The private records, and records of other clients if there are any."""

    # [n, channels, rows, columns] from 0 to 1; a record of k numbers has k channels of one row and column.
    images: Tensor
    labels: Tensor
    others: Tensor | None = None


class Scores(nn.Module):
    """One logit z of two classes as the scores of both: 0 and z."""

    def forward(self, logit: Tensor) -> Tensor:
        logit = logit.reshape(-1, 1)
        return torch.cat([torch.zeros_like(logit), logit], 1)


class Partial(nn.Sequential):
    """A network of which some parameters are not trained."""

    # The engine that takes a network apart into layers (`matching.chain`) takes each layer for one that is
    # trained whole. This network cannot be traced, so that an engine is chosen that asks for each parameter.

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Proxy):
            raise TypeError("some parameters are not trained")
        found: Tensor = super().forward(x)
        return found


def view(played: Round, others: Tensor | None = None) -> tuple[Observation, Truth]:
    """Return what the server sees of a round, and the truth, with inputs of other clients."""
    mean, deviation, images = unit(played.inputs)
    model = wrapped(played.model, played.inputs, mean, deviation, played.update)
    channels, rows, columns = images.shape[1:]
    with torch.no_grad():
        classes = model.eval()(images[:1]).shape[1]
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
        local={"lr": played.lr, "batch_size": played.batch_size, "epochs": played.steps},
        own=model,
    )
    if others is not None:
        others = others.reshape(-1, *images.shape[1:]) * deviation[:, None, None] + mean[:, None, None]
    return observation, Truth(images, played.targets.flatten().long(), others)


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
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    return any(norm.training or norm.running_mean is None for norm in norms)


def wrapped(
    model: nn.Module, inputs: Tensor, mean: Tensor, deviation: Tensor, sent: Collection[str]
) -> nn.Module:
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
    seen = inputs[:1].clone()
    with torch.no_grad():
        output = scores(deepcopy(model).eval(), seen, "one record alone, in evaluation")
    if not torch.equal(seen, inputs[:1]):
        parts["network"].register_forward_pre_hook(_copied)
    if output.dim() == 1 or output.shape[1] == 1:
        parts["scores"] = Scores()
    whole = all(name in sent for name, _ in model.named_parameters())
    found = nn.Sequential() if whole else Partial()
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
    norms = [m for m in played.model.modules() if isinstance(m, _BatchNorm)]
    norm = "none" if not norms else "the batch at hand" if observation.mode == "train" else "sent statistics"
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
        "loss": "mean cross-entropy" if played.plain_loss else "not the mean cross-entropy",
    }
