"""Values that each trial has for itself: scales and shifts of batch norms that clients keep, and draws."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from leakbench.base.tensors import Tensors
from leakbench.networks.batch_statistics import normalised
from leakbench.networks.layers import RandomLayer

OWN = ("weight", "bias")


class HiddenNorm(nn.Module):
    """The replacement of a batch norm: its normalisation, then `weight` and `bias` of each trial (`lent`)."""

    running_mean: Tensor | None
    running_var: Tensor | None
    normed: Tensor
    affine = True

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.eps = norm.eps
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(norm, name))
        self.weight = torch.ones(1, norm.num_features)
        self.bias = torch.zeros_like(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = (value.to(x.device)[:, None, :, None, None] for value in (self.weight, self.bias))
        self.normed = normalised(self, x, len(scale))
        return (self.normed.unflatten(0, (len(scale), -1)) * scale + shift).flatten(0, 1)


def hide(model: nn.Module, layers: list[str]) -> nn.Module:
    """Replace each batch norm that `layers` names by a HiddenNorm, in place."""
    for name in layers:
        norm = model.get_submodule(name)
        if not isinstance(norm, nn.BatchNorm2d):
            raise ValueError(f"{name} is no batch norm")
        model.set_submodule(name, HiddenNorm(norm))
    return model


def hidden(model: nn.Module) -> Tensors:
    """Return parameter → value [trials, channels] of the hidden parameters, as they are lent now."""
    norms = [(name, layer) for name, layer in model.named_modules() if isinstance(layer, HiddenNorm)]
    return {f"{name}.{own}": getattr(layer, own) for name, layer in norms for own in OWN}


@contextmanager
def lent(model: nn.Module, values: Tensors) -> Iterator[None]:
    """Give hidden parameters and drawn masks these values while the context lasts."""
    if not any("." in name for name in values):
        # Images and labels alone belong to no layer. `lent` runs in every iteration, so this case is quick.
        yield
        return
    kept = _kept(model)
    known = hidden(model) | kept
    before = {name: value for name, value in known.items() if name in values}

    def give(given: Tensors) -> None:
        for name, value in given.items():
            layer, _, own = name.rpartition(".")
            setattr(model.get_submodule(layer), own, value)

    give({name: values[name].flatten(0, 1) if name in kept else values[name] for name in before})
    try:
        yield
    finally:
        give(before)


def _kept(model: nn.Module) -> Tensors:
    """Return buffer → what each layer that draws has drawn."""
    layers = ((name, layer) for name, layer in model.named_modules() if isinstance(layer, RandomLayer))
    return {f"{name}.keep": layer.keep for name, layer in layers}


def drawn(model: nn.Module, trials: int) -> Tensors:
    """Return buffer → what is lent as drawn, [trials, batch, width]."""
    lent_now = {name: value for name, value in _kept(model).items() if value.dim()}
    return {name: value.unflatten(0, (trials, -1)) for name, value in lent_now.items()}


def own_names(layer: nn.Module) -> tuple[str, ...]:
    """Return the names of the tensors of a layer that have gradients: its parameters or hidden parameters."""
    return (
        OWN if isinstance(layer, HiddenNorm) else tuple(n for n, _ in layer.named_parameters(recurse=False))
    )
