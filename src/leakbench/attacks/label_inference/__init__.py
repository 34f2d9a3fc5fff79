"""Label inference from the update of the last dense layer, one file for each rule, found by its name.

Each rule takes what is known of the layer (`LastLayer`) and returns labels [trials, batch] in any order. With
B samples, mean prediction p and n_k samples of class k, the gradient of the bias is p_k - n_k / B (softmax
and cross-entropy). A row of the weights' gradient is the same sum over samples, with each sample's term times
what the layer read. All rules solve these equations for n and differ in what they put in place of p.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from leakbench.base.errors import Unfit
from leakbench.base.parts import part


class Answers(NamedTuple):
    """What the last layer reads [..., images, inputs], and its logits [..., images, classes]."""

    inputs: Tensor
    logits: Tensor


class Probe(NamedTuple):
    """Images of the attacker's own in the networks that the server knows.

    before: returns the answers of the model that was sent; a call costs one forward pass.
    later: returns the answers of each client's model after its local steps, tensors [trials, images, ...]; a
    call costs a forward pass for each trial.
    labels: [images], the labels of the images, if they have any.
    """

    before: Callable[[], Answers]
    later: Callable[[], Answers]
    labels: Tensor | None = None


@dataclass(frozen=True)
class LastLayer:
    """What is known of the last dense layer of a network and of its update.

    weight: [trials, classes, inputs], the mean gradient of the weights over the batch and over local steps.
    bias: [trials, classes], the same of the bias. None if the layer has no bias.
    batch: the number of samples B.
    noise: 64 images of uniform noise.
    sent: the layer as it was sent.
    steps: the number of local steps.
    lr: the learning rate of the local steps.
    auxiliary: labelled samples of the attacker, if the attack has any (threat model D).
    """

    weight: Tensor
    bias: Tensor | None
    batch: int
    noise: Probe
    sent: nn.Linear
    steps: int = 1
    lr: float = 1.0
    auxiliary: Probe | None = None

    @property
    def classes(self) -> int:
        return self.weight.shape[1]

    @cached_property
    def prior(self) -> Tensor:
        """Return the mean prediction on noise, [classes]."""
        return self.noise.before().logits.softmax(-1).mean(0)

    def needed_bias(self, method: str) -> Tensor:
        """Return the bias's gradient. Raises Unfit, which names `method`, if there is none."""
        if self.bias is None:
            raise Unfit(f"labels: {method} needs the gradient of the last layer's bias, and it has none "
                        "(use counted)")  # fmt: skip
        return self.bias


def infer(method: str, layer: LastLayer) -> Tensor:
    """Return the labels [trials, batch], ascending, that a rule infers from the last layer's update."""
    return part("labels", method)(layer).sort(1).values


def apportioned(ideal: Tensor, start: Tensor, batch: int) -> Tensor:
    """Return labels [trials, batch] whose counts lie as near to `ideal` as `start` permits.

    One label at a time is added to the class whose count falls short of the ideal most, or removed from the
    class whose count exceeds it most, until there are `batch` labels. If both have the same sum and `start`
    is rounded, this is the method of largest remainders. ideal: [trials, classes], any real numbers; start:
    int64 [trials, classes].
    """
    counts = start.clone()
    while bool((gap := batch - counts.sum(1)).any()):
        short = ideal - counts
        excess = torch.where(counts > 0, -short, -torch.inf)
        place = torch.where((gap > 0)[:, None], short, excess).argmax(1, keepdim=True)
        counts.scatter_add_(1, place, gap.sign()[:, None])
    labels = torch.arange(counts.shape[1]).expand_as(counts)
    return labels.flatten().repeat_interleave(counts.flatten()).view(len(counts), batch)


def nearest(ideal: Tensor, batch: int) -> Tensor:
    """Return labels [trials, batch] with the whole-numbered counts nearest to `ideal` [trials, classes]."""
    ideal = ideal.nan_to_num(0.0, batch, 0).clamp(0, batch)
    return apportioned(ideal, ideal.round().to(torch.int64), batch)
