"""How far dummy gradients are from those observed: one value for each trial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Distance:
    """A distance of gradients as a function of a few products of each parameter's: dummy g with observed o.

    of: which products it reads. value(products, theirs, weights): products name → [trials, parameters], `theirs` the
    squared norms of o, `weights` those of the layers, alike; returns [trials].
    """

    of: tuple[str, ...]
    value: Callable[[Tensors, Tensor, Tensor], Tensor]


PRODUCTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "dot": torch.linalg.vecdot,
    "mine": lambda g, o: torch.linalg.vecdot(g, g),
    "gap": lambda g, o: (g - o).square().sum(-1),
}


def _cosine(products: Tensors, theirs: Tensor, weights: Tensor) -> Tensor:
    dot, mine = (weights * products["dot"]).sum(1), (weights * products["mine"]).sum(1)
    return 1 - dot / (mine.sqrt() * (weights * theirs).sum(1).sqrt())


DISTANCES = {
    # DLG, Eqn 3: the sum of squared differences.
    "squares": Distance(("gap",), lambda products, theirs, weights: (weights * products["gap"]).sum(1)),
    # InvG, Eqn 4, and with weights AGIC, Eqn 6: one minus the cosine over all parameters.
    "cosine": Distance(("dot", "mine"), _cosine),
}


def products(of: Sequence[str], found: Tensors, observed: Tensors) -> Tensors:
    """Return product name → [trials, parameters] of gradients [trials, *shape]."""
    return {
        kind: torch.stack([PRODUCTS[kind](g.flatten(1), observed[n].flatten(1)) for n, g in found.items()], 1)
        for kind in of
    }
