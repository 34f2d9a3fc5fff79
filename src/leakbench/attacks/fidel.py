"""The First Dense Layer Attack (Fidel, section II): weight changes divided by bias changes."""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.attacks import capable
from leakbench.attacks.exact.adam import stepped_back
from leakbench.attacks.exact.span import span
from leakbench.base.errors import Unfit
from leakbench.networks.layers import by_batch, first_dense, normalisation
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# The loss behind the first dense layer is not computed, so that it may be any.
ANY_LOSS = True
# What it costs: an image that a generator makes of each neuron, of which 64 live in a layer that feeds it.
COST = {"convolutions": "updates * (min(neurons, 64) if neurons else 64) * 240 * generator"}
IMAGES_AT_ONCE = 32
# The largest number of weight changes that are divided at once: two megabytes.
CACHED = 1 << 19
# How near to the normalised pixels a layer's inputs are if they are nothing else: bfloat16 rounds by 0.004.
CLOSE = 0.01


def divide(weight: Tensor, bias: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Divide weight changes by bias changes; return the ratios and which of them are usable.

    With one active sample the ratio is that sample (section II-A). Without a change of the bias it is known
    up to scale, and divided by its largest magnitude. A neuron without any change, or with NaN, is dead.
    """
    largest = torch.maximum(weight.amax(-1), -weight.amin(-1))
    usable = largest > 0
    divisor = torch.where(bias != 0, bias, largest)
    divisor = torch.where(usable, divisor, torch.full_like(divisor, torch.inf))
    ratio = torch.div(weight, divisor.unsqueeze(-1), out=out)
    # The largest ratio of a row bounds the others, so most updates need no further pass.
    if not bool((largest / divisor).isfinite().all()):
        torch.nan_to_num_(ratio, nan=0.0, posinf=0.0, neginf=0.0)
    return ratio, usable


def join(ratio: Tensor, known: Tensor) -> Tensor:
    """Return the median over neurons of the known ratios [..., inputs], coordinate by coordinate."""
    there = (ratio != 0) & known.unsqueeze(-1)
    return torch.nan_to_num(torch.where(there, ratio, torch.nan).nanmedian(-2).values)


# For this many rounds making the network once costs little, and those of a wide network fit into memory.
@capable(rounds_at_once=40)
@torch.no_grad()
def fidel(
    observation: Observation,
    rng: torch.Generator,
    *,
    combine: bool = False,
    neurons: Annotated[int, Field(gt=0)] | None = None,
    denoised: Annotated[bool, Field(exclude_if=lambda on: on == 0)] = False,
) -> Reconstruction:
    """Reconstruct from every neuron of the first dense layer, without learning rate, labels or iterations.

    For a fully connected victim the ratios are images, once its normalisation is undone. For a convolutional
    victim they are the pooled features that the layer reads. A generator turns these into images (section
    III-B); without one they stay features.

    combine: whether a last candidate joins all neurons, which fills the gaps of an update that was shared in
    part (section II-B).
    neurons: the number of live neurons that are used, the first ones. Without it, all are used.
    denoised: whether the attack is adapted to noise: it keeps of a layer's weight changes the part in their
    leading directions, as many as the client has samples, in which all samples lie.

    Raises Unfit where the first dense layer has no bias.
    """
    observation = stepped_back(observation)
    model = observation.model()
    pixels = observation.pixels
    noise = torch.rand(2, *pixels, generator=torch.Generator().manual_seed(0))
    layer, read = first_dense(model, noise)
    features = tuple(read.shape[1:])
    if f"{layer}.bias" not in observation.updates:
        raise Unfit(f"attack: the dense layer {layer} has no bias (Fidel divides by its change)")
    bias = observation.update(f"{layer}.bias")
    ratio, usable = _ratios(observation, f"{layer}.weight", bias, combine, denoised)
    if neurons is not None:
        usable &= usable.cumsum(-1) <= neurons
        ratio[~usable] = 0
    partial = ratio.unflatten(-1, features)
    mean, deviation = normalisation(model, pixels[0])
    if (
        observation.generator is None
        and features == pixels
        and (
            by_batch(model)
            or torch.allclose(read.to(noise), (noise - mean) / deviation, rtol=CLOSE, atol=CLOSE)
        )
    ):
        if mean.any() or (deviation != 1).any():
            partial = torch.where(usable[..., None, None, None], partial * deviation + mean, 0)
        return Reconstruction(partial, usable)
    if observation.generator is None:
        return Reconstruction(partial, usable, "features")
    return Reconstruction(_generate(observation.generator, partial, usable, pixels), usable)


def _ratios(
    observation: Observation, name: str, bias: Tensor, combine: bool, denoised: bool = False
) -> tuple[Tensor, Tensor]:
    """Return all ratios [rounds, clients, neurons (+ 1 combined), inputs], and which of them are usable."""
    clients, neurons, inputs = observation.updates[name].shape[1:]
    size = observation.rounds, clients, neurons + combine
    ratio = observation.update(name, slice(0)).new_empty(*size, inputs)
    usable = torch.empty(size, dtype=torch.bool)
    step = max(1, CACHED // (clients * neurons * inputs))
    for start in range(0, observation.rounds, step):
        part = slice(start, start + step)
        weight = observation.update(name, part)
        weight = _leading(weight, observation.clients) if denoised else weight
        own, usable[part, :, :neurons] = divide(weight, bias[part], out=ratio[part, :, :neurons])
        if combine:
            ratio[part, :, -1] = join(own, bias[part] != 0)
            usable[part, :, -1] = ratio[part, :, -1].any(-1)
    return ratio, usable


def _leading(weight: Tensor, clients: Sequence[int]) -> Tensor:
    """Return weight changes [rounds, clients, neurons, inputs] within their leading directions."""
    out = weight.clone()
    for changes in out:
        for change, batch in zip(changes, clients, strict=True):
            seen = span(change.double(), batch, 1.0)
            if seen is not None:
                change.copy_((change.double() @ seen.right.T) @ seen.right)
    return out


def _generate(generator: nn.Module, partial: Tensor, alive: Tensor, pixels: tuple[int, int, int]) -> Tensor:
    """Return images of the live partial reconstructions; dead ones stay zero and are not generated."""
    images = torch.zeros(*alive.shape, *pixels)
    flat, kept = partial.flatten(0, 2), alive.flatten().nonzero().squeeze(1)
    for batch in kept.split(IMAGES_AT_ONCE):
        images.view(-1, *pixels)[batch] = generator(flat[batch].contiguous(memory_format=torch.channels_last))
    return images
