"""Batch norms, also those whose scale and shift each trial has for itself."""

import torch
from torch import Tensor, nn

from leakbench.matching.batch_statistics import bent, normalised, pulled, standardise
from leakbench.matching.hidden import OWN, HiddenNorm
from leakbench.matching.layers.rule import Kept, Link, Rule
from leakbench.tensors import Tensors

Normed = nn.BatchNorm2d | HiddenNorm


def _by_channel(value: Tensor, n: int) -> Tensor:
    """Return what each trial's channels have, or all trials', [trials or 1, channels], beside images [n,
    channels, rows, columns]."""
    return (
        value[:, :, None, None]
        if len(value) == 1
        else value.repeat_interleave(n // len(value), 0)[:, :, None, None]
    )


def _scaled(u: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
    """Return what a norm's rate is of that of what it reads, before its gain, or its slope of that behind it:
    one linear map.

    `scale`: 1 / deviation, [channels] of its own statistics, else [trials, 1, channels, 1, 1] of each
    trial's.
    """
    return u * scale[:, None, None] if scale.dim() == 1 else pulled(u, normed, scale)


def _forward(norm: Normed, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    if norm.running_mean is None or norm.running_var is None:
        normed, scale = standardise(x, trials, norm.eps)
    else:
        scale = (norm.running_var + norm.eps).rsqrt()
        normed = (x - norm.running_mean[:, None, None]) * scale[:, None, None]
    gain, shift = (_by_channel(v if v.dim() == 2 else v[None], len(x)) for v in (norm.weight, norm.bias))
    return torch.addcmul(shift, normed, gain), (normed, scale, gain)


def _backward(norm: Normed, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    normed, scale, gain = kept
    return _scaled(slope * gain, normed, scale)


def _rate(norm: Normed, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors) -> Tensor:
    normed, scale, gain = kept
    gains, shifts = (_by_channel(value, read[0]) for value in own.values())
    found = torch.addcmul(shifts, normed, gains)
    return found if rate is None else found.addcmul_(_scaled(rate, normed, scale), gain)


def _back(
    norm: Normed, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor,
    own: Tensors
) -> Tensor:  # fmt: skip
    normed, scale, gain = kept
    gains, _ = (_by_channel(value, read[0]) for value in own.values())
    found = _scaled((rate * gain).addcmul_(slope, gains), normed, scale)
    if moved is None or scale.dim() == 1:
        return found
    return found.add_(bent(slope * gain, moved, normed, scale))


def _chained(norm: Normed, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    each = zip(OWN, (slope * kept[0], slope), strict=True)
    return {name: value.unflatten(0, (trials, -1)).sum((1, 3, 4)) for name, value in each}


def own_rates(
    kept: Kept, slope: Tensor, moved: Tensor | None, rate: Tensor, trials: int
) -> tuple[Tensor, Tensor]:
    """Return the rates of the loss's slopes at a norm's scale and shift, [trials, channels] each."""
    normed, scale, _ = kept
    found = rate * normed
    if moved is not None:
        found.addcmul_(slope, _scaled(moved, normed, scale))
    at_scale, at_shift = (value.unflatten(0, (trials, -1)).sum((1, 3, 4)) for value in (found, rate))
    return at_scale, at_shift


def _gradients(norm: Normed, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None) -> Tensors:
    return _chained(norm, [normalised(norm, x, trials) if normed is None else normed], slope, trials)


_LINK = Link(_forward, _backward, _rate, _back, _chained)
NORM = Rule(_gradients, None, _LINK, lambda norm: norm.affine)
