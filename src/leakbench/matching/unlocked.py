"""A key-lock as an attacker has it: a batch norm whose scale γ and shift β are the trial's own guess."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from leakbench.matching.batch_statistics import normalised
from leakbench.tensors import Tensors

FACTORS = ("scale", "shift")


class Unlocked(nn.Module):
    """The normalisation of the batch norm whose place it takes, then `factors`: γ and β, each [trials,
    channels].

    It reads [trials·batch, channels, rows, columns]. Without statistics of its own it uses those of each
    trial's batch. It has no parameters: what the server does not know has no gradient to match. `normed` is
    the last input, normalised.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    normed: Tensor

    def __init__(self, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.eps = norm.eps
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(norm, name))
        one = torch.ones(1, norm.num_features)
        self.factors = one, torch.zeros_like(one)

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = (value.to(x.device)[:, None, :, None, None] for value in self.factors)
        self.normed = normalised(self, x, len(scale))
        return (self.normed.unflatten(0, (len(scale), -1)) * scale + shift).flatten(0, 1)


def unlock(model: nn.Module, layers: list[str]) -> nn.Module:
    """Put an Unlocked in the place of each batch norm that `layers` names, in place. Raises ValueError for
    another layer."""
    for name in layers:
        norm = model.get_submodule(name)
        if not isinstance(norm, nn.BatchNorm2d):
            raise ValueError(f"{name} is no batch norm")
        model.set_submodule(name, Unlocked(norm))
    return model


@contextmanager
def opened(model: nn.Module, factors: Tensors | None) -> Iterator[None]:
    """Let the model's lock have these factors, `scale` and `shift` [trials, channels]; none: it is left as it
    is."""
    locks = [layer for layer in model.modules() if isinstance(layer, Unlocked)] if factors else []
    before = [lock.factors for lock in locks]
    try:
        for lock in locks:
            assert factors is not None
            lock.factors = factors["scale"], factors["shift"]
        yield
    finally:
        for lock, factor in zip(locks, before, strict=True):
            lock.factors = factor
