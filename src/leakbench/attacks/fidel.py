"""The First Dense Layer Attack (Fidel, section II): divide weight changes by bias changes, neuron by neuron."""

import torch
from torch import Tensor

from leakbench.attacks.observation import Observation
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.victims.layers import dense_input, first_dense


def divide(weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return (ratio [..., neurons, inputs], usable [..., neurons]) of weight and bias changes.

    With one active sample x, both changes share one factor and the ratio is x (section II-A). A bias change of exactly
    zero beside a weight change leaves x known up to scale: the row is divided by its largest magnitude. A neuron
    without any change is dead: its row is zero and not usable.
    """
    largest = weight.abs().amax(-1)
    usable = largest > 0
    divisor = torch.where(bias != 0, bias, largest)
    divisor = torch.where(usable, divisor, torch.ones_like(divisor))
    ratio = weight / divisor.unsqueeze(-1)
    return torch.nan_to_num(ratio, nan=0.0, posinf=0.0, neginf=0.0), usable


@torch.no_grad()
def fidel(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Reconstruct from every neuron of the first dense layer; needs no learning rate, no labels, no iterations.

    For a fully connected victim the ratios are images. For a convolutional one they are the pooled features that the
    layer reads; with a generator (section III-B) they become images, without one they stay features.
    """
    model = observation.model()
    layer = first_dense(model)
    rows, columns, channels = observation.network["shape"]
    shape = tuple(dense_input(model, torch.zeros(1, channels, rows, columns)).shape[1:])
    ratio, usable = divide(observation.update(f"{layer}.weight"), observation.update(f"{layer}.bias"))
    partial = ratio.unflatten(-1, shape)
    if observation.generator is None:
        return Reconstruction(partial, usable, "images" if shape == (channels, rows, columns) else "features")
    images = torch.zeros(*partial.shape[:3], channels, rows, columns)
    flat, kept = partial.flatten(0, 2), usable.flatten().nonzero().squeeze(1)
    for batch in kept.split(256):
        with torch.autocast("cpu", torch.bfloat16):
            images.view(-1, channels, rows, columns)[batch] = observation.generator(flat[batch]).float()
    return Reconstruction(images, usable)
