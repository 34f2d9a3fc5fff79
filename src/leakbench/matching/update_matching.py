"""Which updates of several epochs were trained on the same sample (AGIC, section IV-B, step 1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

KERNEL = 2


@dataclass(frozen=True)
class Looks:
    """What a first look at one epoch's updates gave: images [updates, batch, …] and labels [updates,
    batch]."""

    images: Tensor
    labels: Tensor


def squared_errors(earlier: Tensor, later: Tensor, pooling: bool) -> Tensor:
    """Return the mean squared error of each of m images with each of k: [m, C, H, W], [k, C, H, W] → float64
    [m, k].

    With `pooling`, of their averages over 2×2 pixels, which takes out noise (AGIC, section V-A: kernel 2,
    stride 2).
    """
    a, b = (avg_pool2d(x, KERNEL) if pooling else x for x in (earlier, later))
    a, b = a.flatten(1).double(), b.flatten(1).double()
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square() / a.shape[1]


def share_a_label(earlier: Tensor, later: Tensor) -> Tensor:
    """Return whether two updates' label lists have one in common: [m, batch], [k, batch] → bool [m, k].

    For batches of one image: whether their labels are equal.
    """
    return torch.stack([(earlier[:, :, None] == row).flatten(1).any(1) for row in later], 1)


def greedy(errors: Tensor, allowed: Tensor) -> Tensor:
    """Pair one-to-one, always the nearest two that are both free: errors [m, k] → for each of k its partner
    of m, or -1.

    Only `allowed` pairs are made. Of equal errors the first pair, row by row, goes first.
    """
    partner = torch.full((errors.shape[1],), -1)
    free = [True] * len(errors), [True] * errors.shape[1]
    places = allowed.flatten().nonzero().flatten()
    order = places[errors.flatten()[places].sort(stable=True).indices]
    left = min(errors.shape)
    for row, column in zip(
        (order // errors.shape[1]).tolist(), (order % errors.shape[1]).tolist(), strict=True
    ):
        if free[0][row] and free[1][column]:
            free[0][row] = free[1][column] = False
            partner[column] = row
            left -= 1
            if not left:
                break
    return partner


def partners(epochs: Sequence[Looks], pooling: bool, label_filter: bool) -> list[Tensor]:
    """Return for each epoch [updates, batch]: the image of the epoch before (its update · batch + position),
    or -1.

    Epochs are paired one after another. With `label_filter`, only images of updates that share a label are
    paired.
    """
    found = [torch.full(epochs[0].labels.shape, -1)]
    for earlier, later in pairwise(epochs):
        errors = squared_errors(earlier.images.flatten(0, 1), later.images.flatten(0, 1), pooling)
        allowed = torch.ones(errors.shape, dtype=torch.bool)
        if label_filter:
            shared = share_a_label(earlier.labels, later.labels)
            sizes = earlier.labels.shape[1], later.labels.shape[1]
            allowed = shared.repeat_interleave(sizes[0], 0).repeat_interleave(sizes[1], 1)
        found.append(greedy(errors, allowed).view(later.labels.shape))
    return found


def chains(found: Sequence[Tensor]) -> dict[range, Tensor]:
    """Return the samples that `partners` found: the epochs in which each was seen → [samples, epochs], an
    image of each.

    An image without a partner begins a sample of its own, so every image belongs to exactly one.
    """
    open_: dict[int, list[int]] = {}
    ended: dict[range, list[list[int]]] = {}

    def end(chain: list[int], epoch: int) -> None:
        ended.setdefault(range(epoch - len(chain), epoch), []).append(chain)

    for epoch, partner in enumerate(found):
        going = {}
        for image, before in enumerate(partner.flatten().tolist()):
            going[image] = [*open_.pop(before, []), image] if before >= 0 else [image]
        for chain in open_.values():
            end(chain, epoch)
        open_ = going
    for chain in open_.values():
        end(chain, len(found))
    return {seen: torch.tensor(samples) for seen, samples in ended.items()}
