"""Which updates of several epochs were trained on the same sample (AGIC, section IV-B, step 1)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

KERNEL = 2


# A first look at one epoch's updates: images [updates, batch, …] and labels [updates, batch].
Looks = tuple[Tensor, Tensor]


def squared_errors(earlier: Tensor, later: Tensor, pooling: bool) -> Tensor:
    """Return the mean squared error between each of m images and each of k images, float64 [m, k]."""
    a, b = (avg_pool2d(x, KERNEL) if pooling else x for x in (earlier, later))
    a, b = a.flatten(1).double(), b.flatten(1).double()
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").square() / a.shape[1]


def greedy(errors: Tensor, allowed: Tensor) -> Tensor:
    """Pair images one to one, always the nearest two that are both free."""
    width = errors.shape[1]
    partner, taken = [-1] * width, set[int]()
    places = allowed.flatten().nonzero().flatten()
    for place in places[errors.flatten()[places].sort(stable=True).indices].tolist():
        row, column = divmod(place, width)
        if row not in taken and partner[column] < 0:
            partner[column] = row
            taken.add(row)
            if len(taken) == min(errors.shape):
                break
    return torch.tensor(partner)


def partners(epochs: Sequence[Looks], pooling: bool, label_filter: bool) -> list[Tensor]:
    """Return for each epoch the partner of each image in the epoch before."""
    found = [torch.full(epochs[0][1].shape, -1)]
    for (before, earlier), (images, later) in pairwise(epochs):
        errors = squared_errors(before.flatten(0, 1), images.flatten(0, 1), pooling)
        allowed = torch.ones(errors.shape, dtype=torch.bool)
        if label_filter:
            # Whether the lists of two updates have a label in common.
            shared = torch.stack([(earlier[:, :, None] == row).flatten(1).any(1) for row in later], 1)
            allowed = shared.repeat_interleave(earlier.shape[1], 0).repeat_interleave(later.shape[1], 1)
        found.append(greedy(errors, allowed).view(later.shape))
    return found


def chains(found: Sequence[Tensor]) -> dict[range, Tensor]:
    """Return the samples that `partners` found, by the epochs in which they were seen."""
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
