"""How an update of several local epochs is read, and how the images of several epochs become one set."""

from typing import Literal, NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from leakbench.attacks.matching.engines.gradients import gradients
from leakbench.attacks.matching.received import local_steps
from leakbench.base.tensors import Tensors
from leakbench.observations.observation import Observation

Updates = Literal["one-batch", "simulated", "shuffled", "reshuffled", "epochs"]


class Taken(NamedTuple):
    """The training that an attack simulates in place of the client's.

    `steps` are slices of the unknown images, of which `epochs` sets lie one after the other. A simulated step
    stands for `stride` of the client's. `shuffled` says whether the order of the samples is unknown.
    """

    steps: list[slice]
    epochs: int = 1
    stride: int = 1
    shuffled: bool = False


def taken_for(observation: Observation, samples: int, updates: Updates) -> Taken:
    """Return what an attack simulates of a client's training (InvG, section 4.3; DLF's code)."""
    if updates == "one-batch" or observation.kind != "model":
        return Taken([])
    every, epochs = local_steps(observation, samples), int(observation.local["epochs"])
    of_epoch = len(every) // epochs
    if updates == "epochs":
        return Taken([slice(0, samples)] * epochs, stride=of_epoch)
    if updates != "reshuffled":
        return Taken(every, shuffled=updates == "shuffled")
    starts = [samples * (number // of_epoch) for number in range(len(every))]
    own = [slice(part.start + start, part.stop + start) for part, start in zip(every, starts, strict=True)]
    return Taken(own, epochs, shuffled=True)


def simulated_update(
    model: nn.Module, images: Tensor, labels: Tensor, steps: list[slice], lr: float
) -> Tensors:
    """Simulate a client's steps of plain SGD on dummies (InvG, section 4.3), one trial after another."""
    found: list[Tensors] = []
    for x, y in zip(images.split(1), labels.split(1), strict=True):
        start: Tensors = dict(model.named_parameters())
        weights = start
        for part in steps:
            gradient, _ = gradients(model, x[:, part], y[:, part], weights=weights)
            weights = {name: weights[name] - lr * value[0] for name, value in gradient.items()}
        found.append({name: weights[name] - start[name] for name in start})
    return {name: torch.stack([each[name] for each in found]) for name in found[0]}


def merged(images: Tensor, epochs: int) -> Tensor:
    """Return one set of images from those of several epochs: the mean of images paired one to one (DLF)."""
    if epochs == 1:
        return images
    return torch.stack([_mean(each) for each in images.unflatten(1, (epochs, -1))])


def _mean(images: Tensor) -> Tensor:
    """Return the mean over the epochs of one trial's images, paired with the first epoch's."""
    flat = images.flatten(2).double()
    paired = [images[0]]
    for own, pixels in zip(images[1:], flat[1:], strict=True):
        apart = torch.cdist(flat[0], pixels, compute_mode="donot_use_mm_for_euclid_dist")
        # The PSNR is minus twenty times this logarithm, up to a constant. Equal images have no finite one.
        _, partner = linear_sum_assignment(apart.clamp_min(1e-12).log10().numpy())
        paired.append(own[torch.from_numpy(partner)])
    return torch.stack(paired).mean(0)
