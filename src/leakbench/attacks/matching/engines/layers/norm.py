"""Batch norms, with the same scale and shift for all trials or with those of each trial."""

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.layers.rule import Kept, LayerRule, Link
from leakbench.base.tensors import Tensors
from leakbench.networks.batch_statistics import bent, normalised, pulled, standardise
from leakbench.networks.per_trial import OWN, HiddenNorm

Normed = nn.BatchNorm2d | HiddenNorm


def _wide(value: Tensor, trials: int) -> Tensor:
    """Return values of channels in the layout of images [batch, trials·channels, rows, columns]."""
    if trials == 1:
        return value.view(-1, 1, 1)
    rows = value if value.dim() == 2 else value[None]
    return rows.expand(trials, -1).reshape(-1, 1, 1)


def by_images(norm: Normed) -> bool:
    """Return whether a norm has no running statistics, so that it uses those of the images."""
    return norm.running_mean is None or norm.running_var is None


def _forward(norm: Normed, x: Tensor, trials: int) -> tuple[Tensor, Kept]:
    gain, shift = _wide(norm.weight, trials), _wide(norm.bias, trials)
    if norm.running_mean is None or norm.running_var is None:
        # Each channel belongs to one trial, so the channels of all trials may be taken for those of one.
        normed, scale = standardise(x, 1, norm.eps)
        return torch.addcmul(shift, normed, gain), (normed, scale, gain)
    scale = (norm.running_var + norm.eps).rsqrt()
    scale, mean = _wide(scale, trials), _wide(norm.running_mean, trials)
    whole = gain * scale
    return torch.addcmul(shift.addcmul(mean, whole, value=-1), x, whole), (x, scale, whole, mean)


def _backward(norm: Normed, kept: Kept, read: torch.Size, slope: Tensor) -> Tensor:
    if by_images(norm):
        normed, scale, gain = kept
        return pulled(slope * gain, normed, scale)
    return slope * kept[2]


def _rate(
    norm: Normed, kept: Kept, read: torch.Size, rate: Tensor | None, own: Tensors, trials: int
) -> Tensor:
    if not own:
        assert rate is not None
        return pulled(rate, *kept[:2]) * kept[2] if by_images(norm) else rate * kept[2]
    gains, shifts = (value.reshape(-1, 1, 1) for value in own.values())
    if by_images(norm):
        normed, scale, gain = kept
        found = torch.addcmul(shifts, normed, gains)
        return found if rate is None else found.addcmul_(pulled(rate, normed, scale), gain)
    x, scale, whole, mean = kept
    moving = gains * scale
    found = torch.addcmul(shifts.addcmul(mean, moving, value=-1), x, moving)
    return found if rate is None else found.addcmul_(rate, whole)


def _back(
    norm: Normed, kept: Kept, read: torch.Size, slope: Tensor, moved: Tensor | None, rate: Tensor | None,
    own: Tensors
) -> Tensor:  # fmt: skip
    gains = next(iter(own.values())).reshape(-1, 1, 1)
    if by_images(norm):
        normed, scale, gain = kept
        still = slope * gains if rate is None else (rate * gain).addcmul_(slope, gains)
        found = pulled(still, normed, scale)
        return found if moved is None else found.add_(bent(slope * gain, moved, normed, scale))
    return slope * (gains * kept[1]) if rate is None else (rate * kept[2]).addcmul_(slope, gains * kept[1])


def _chained(norm: Normed, kept: Kept, slope: Tensor, trials: int) -> Tensors:
    at_gain, at_shift = (slope * kept[0]).sum((0, 2, 3)), slope.sum((0, 2, 3))
    if not by_images(norm):
        scale, mean = kept[1].flatten(), kept[3].flatten()
        at_gain = (at_gain - at_shift * mean) * scale
    return {name: value.view(trials, -1) for name, value in zip(OWN, (at_gain, at_shift), strict=True)}


def own_rates(
    norm: Normed, kept: Kept, slope: Tensor, moved: Tensor | None, rate: Tensor, trials: int
) -> tuple[Tensor, Tensor]:
    """Return the rates of the loss's slopes at a norm's scale and shift, [trials, channels] each."""
    at_scale, at_shift = _chained(norm, kept, rate, trials).values()
    if moved is not None:
        still = pulled(moved, *kept[:2]) if by_images(norm) else moved * kept[1]
        at_scale = at_scale + (slope * still).sum((0, 2, 3)).view(trials, -1)
    return at_scale, at_shift


def _gradients(norm: Normed, x: Tensor, slope: Tensor, trials: int, normed: Tensor | None) -> Tensors:
    each = slope * (normalised(norm, x, trials) if normed is None else normed), slope
    sums = (value.unflatten(0, (trials, -1)).sum((1, 3, 4)) for value in each)
    return dict(zip(OWN, sums, strict=True))


_LINK = Link(_forward, _backward, _rate, _back, _chained)
NORM = LayerRule(_gradients, None, _LINK, lambda norm: norm.affine)
