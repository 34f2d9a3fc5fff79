"""AGIC's weights of layers in the distance (Eqn 7 and 8, Table I)."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.attacks.matching.terms import Weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors
from leakbench.networks.layers import hooked

Shape = Literal["one", "linear", "exponential", "logarithmic"]
Norms = Literal["following", "one", "none"]
Order = Literal["parameters", "forward"]


def layer_weights(
    *,
    shape: Literal["one", "linear", "exponential", "logarithmic"] = "linear",
    beta: Annotated[float, Field(gt=0)] = 1.0,
    relu: bool = False,
    zeros: Literal["gradient", "outputs"] = "gradient",
    norms: Literal["following", "one", "none"] = "following",
    order: Literal["parameters", "forward"] = "parameters",
) -> Weights:
    """Return weights of the parameters in every distance of the objective, which differ from layer to layer.

    The weights are AGIC's. `norms` and `order` are what the paper leaves open, see `parameter_weights`.

    shape: the curve of the weights over the convolutions.
    beta: the weight of the last convolution, above 0, where that of the first one is 1.
    relu: whether a convolution's weight is divided by one minus its share of zeros (Eqn 8).
    zeros: the zeros that `relu` counts: exact zeros in the observed gradient of the convolution (`gradient`),
    or zeros in the output of the ReLU behind it, measured on noise (`outputs`).
    norms: the weight of batch norms: that of the convolution before them (`following`), one (`one`) or zero
    (`none`).
    order: where projections of a residual network are counted: where their parameters stand (`parameters`),
    or where they are first read (`forward`).
    """

    def of(group: Group) -> Callable[[Tensors], Tensors]:
        shares = shut_share(group.model, group.noise) if relu and zeros == "outputs" else None
        return partial(
            parameter_weights,
            group.model,
            shape=shape,
            beta=beta,
            relu=relu,
            norms=norms,
            order=order,
            zeros=shares,
        )

    return Weights(of)


def curve(shape: Shape, count: int, beta: float) -> Tensor:
    """Return the weights of `count` convolutions: through (1, 1) and (count, beta) (AGIC, Table I)."""
    place = torch.arange(1, count + 1, dtype=torch.float64)
    if shape == "one" or count == 1:
        return torch.ones(count, dtype=torch.float64)
    # exp(1) … exp(count) spans many orders, so the difference is taken from the last place.
    rising = {
        "linear": (place - 1) / (count - 1),
        "exponential": (torch.exp(place - count) - math.exp(1 - count)) / (1 - math.exp(1 - count)),
        "logarithmic": place.log() / math.log(count),
    }[shape]
    return 1 + (beta - 1) * rising


@torch.no_grad()
def shut_share(model: nn.Module, images: Tensor) -> dict[str, float]:
    """Return the share of each convolution's output that the ReLU behind it shuts; 0 where none follows."""
    waiting: list[str] = []
    shares: dict[str, float] = {}

    def note(name: str, layer: nn.Module, output: Tensor) -> None:
        if isinstance(layer, nn.Conv2d):
            shares[name] = 0.0
            waiting.append(name)
        else:
            shares.update(dict.fromkeys(waiting, float((output == 0).double().mean())))
            waiting.clear()

    hooks = [
        layer.register_forward_hook(lambda layer, _, output, name=name: note(name, layer, output))
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Conv2d | nn.ReLU)
    ]
    with hooked(hooks):
        model(images)
    return shares


def _as_read(names: list[str]) -> list[str]:
    """Return convolutions with each block's projection before the other convolutions of the block."""
    block = {
        n: n.partition("downsample")[0] if "downsample" in n else n.rpartition(".")[0] + "." for n in names
    }
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        first.setdefault(block[name], place)
    return sorted(names, key=lambda name: (first[block[name]], "downsample" not in name))


def parameter_weights(
    model: nn.Module,
    observed: Tensors,
    shape: Shape,
    beta: float,
    relu: bool,
    norms: Norms,
    order: Order,
    zeros: Mapping[str, float] | None = None,
) -> Tensors:
    """Return parameter → weight [trials] for the distance."""
    names = [name for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d)]
    if order == "forward":
        names = _as_read(names)
    curved = curve(shape, len(names), beta) if names else torch.ones(1, dtype=torch.float64)
    place = dict(zip(names, curved, strict=False))
    trials = len(next(iter(observed.values())))
    found: Tensors = {}
    last = torch.ones(trials, dtype=torch.float64)
    for name, layer in model.named_modules():
        own = [f"{name}.{p}" if name else p for p, _ in layer.named_parameters(recurse=False)]
        if isinstance(layer, nn.Conv2d):
            last = place[name].expand(trials)
            if relu:
                if zeros is None:
                    share = (observed[own[0]] == 0).flatten(1).double().mean(1).cpu()
                else:
                    share = torch.tensor(zeros[name])
                last = last / (1 - share).clamp_min(1e-12)
            weight = last
        elif isinstance(layer, nn.Linear):
            weight = curved.mean().expand(trials)
        else:
            weight = {"following": last, "one": torch.ones_like(last), "none": torch.zeros_like(last)}[norms]
        found |= dict.fromkeys(own, weight)
    first = next(iter(observed.values()))
    # Tensors that a defence adds to the update belong to no layer of the model and have weight one.
    found |= {name: torch.ones_like(last) for name in observed if name not in found}
    return {name: weight.to(first) for name, weight in found.items()}
