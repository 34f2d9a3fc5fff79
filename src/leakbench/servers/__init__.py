"""Servers that cheat: what a malicious server does to the model before it sends it out; one file each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.errors import UserError
from leakbench.parts import part
from leakbench.victims.layers import first_dense


@dataclass(frozen=True)
class Held:
    """What a malicious server has when it writes the weights.

    shape: channels, rows and columns of a sample. batch: the number of samples whose gradients it will see
    added up. rng: its own chance. samples: some of its own, float [n, channels, rows, columns] in [0, 1];
    none where it holds none. clients: the number of samples of each client; without any, one client has all.
    """

    shape: tuple[int, int, int]
    batch: int
    rng: torch.Generator
    samples: Tensor | None = None
    clients: Sequence[int] = ()


@dataclass(frozen=True)
class Written:
    """What a malicious server did beside changing a network's weights in place.

    expected: what a closed form expects of them, by metric; empty where there is none. each: tensors of which
    each client is sent its own in place of the network's, parameter → [clients, *shape].
    """

    expected: dict[str, float] = field(default_factory=dict)
    each: dict[str, Tensor] = field(default_factory=dict)


Server = Callable[[nn.Module, Held], Written]


def build(module: str, parameters: dict[str, Any]) -> Server:
    """Return the server whose file is `module`: it changes a network's weights in place, and returns what
    else it did.

    Raises UserError where the network lacks a layer that the server needs, or the server lacks samples.
    """
    return partial(part("servers", module), **parameters)


def trapped(
    model: nn.Module, shape: tuple[int, int, int], server: str
) -> tuple[nn.Linear, Callable[[Tensor], Tensor]]:
    """Return the first dense layer, and what turns samples [n, channels, rows, columns] into what it reads
    [n, inputs].

    shape: channels, rows and columns. server: its name, for messages. Raises UserError where the network has
    no dense layer with a bias, or where a layer of the victim's own lies before it.
    """
    noise = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    name, _ = first_dense(model, noise)
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    weighted = next(
        each for each in model.modules() if next(each.parameters(recurse=False), None) is not None
    )
    if weighted is not layer or layer.bias is None:
        raise UserError(
            f"malicious: {server} writes a dense layer with a bias that reads the samples, and the network "
            f"begins with {type(weighted).__name__} (take a victim such as mlp, or imprinted)"
        )

    @torch.no_grad()
    def read(samples: Tensor) -> Tensor:
        kept: list[Tensor] = []
        hook = layer.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].flatten(1)))
        try:
            for few in samples.split(1000):
                model(few)
        finally:
            hook.remove()
        return torch.cat(kept)

    return layer, read
