"""Labelled images of the attacker's own, unchanged, for attacks with surrogate data."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.errors import UserError


class Samples(nn.Module):
    """Labelled images, float [n, channels, rows, columns] in [0, 1], and their labels, int64 [n]."""

    images: Tensor
    labels: Tensor

    def keep(self, images: Tensor, labels: Tensor) -> None:
        """Keep the first images of each class. Raises UserError if a class has too few images."""
        classes = len(self.labels.unique())
        each = len(self.labels) // classes
        places = [(labels == label).nonzero()[:each, 0] for label in range(classes)]
        if min(map(len, places)) < each:
            raise UserError(
                f"generator: samples: a class has fewer than {each} auxiliary images (widen auxiliary, or "
                "lower each)"
            )
        chosen = torch.cat(places)
        self.images, self.labels = images[chosen].clone(), labels[chosen].clone()


def samples(
    inputs: tuple[int, ...], shape: tuple[int, int, int], *, each: Annotated[int, Field(gt=0)] = 100
) -> nn.Module:
    """Return a module that holds labelled images of the attacker's own.

    each: the number of images of each class, 100 as RLU has it.
    """
    rows, columns, channels = shape
    network = Samples()
    network.register_buffer("images", torch.zeros(inputs[0] * each, channels, rows, columns))
    network.register_buffer("labels", torch.arange(inputs[0]).repeat_interleave(each))
    return network
