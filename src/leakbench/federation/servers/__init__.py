"""Malicious servers: what a server does to the model before it sends it out, one file each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.base.parts import part
from leakbench.networks.layers import first_dense


@dataclass(frozen=True)
class Held:
    """What a malicious server has when it writes the weights.

    shape: channels, rows and columns of a sample.
    batch: the number of samples whose gradients the server will see added up.
    rng: the server's own randomness.
    samples: samples of the server's own, float [n, channels, rows, columns] in [0, 1]; None where it has
    none.
    clients: the number of samples of each client. Where it is empty, one client has all samples.
    """

    shape: tuple[int, int, int]
    batch: int
    rng: torch.Generator
    samples: Tensor | None = None
    clients: Sequence[int] = ()


@dataclass(frozen=True)
class Written:
    """What a malicious server did in addition to changing a network's weights in place.

    expected: the values that a closed form expects of metrics, by metric; empty where there is no closed
    form.
    each: the tensors of which each client receives its own version in place of the network's, parameter →
    [clients, *shape].
    """

    expected: dict[str, float] = field(default_factory=dict)
    each: dict[str, Tensor] = field(default_factory=dict)


Writer = Callable[[nn.Module, Held], Written]


def build(module: str, parameters: Mapping[str, Any]) -> Writer:
    return partial(part("servers", module), **parameters)


def trapped(
    model: nn.Module, shape: tuple[int, int, int], server: str
) -> tuple[nn.Linear, Callable[[Tensor], Tensor]]:
    """Return the first dense layer of a network, and a function from samples to what the layer reads.

    Raises UserError if it has no bias, or if another layer with parameters lies before it.
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
        with layer.register_forward_pre_hook(lambda _, inputs: kept.append(inputs[0].flatten(1))):
            for few in samples.split(1000):
                model(few)
        return torch.cat(kept)

    return layer, read
