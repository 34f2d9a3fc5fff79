"""DGP, dual gradient pruning (Xue et al., AAAI 2024): neither the largest nor the smallest coordinates."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.base.errors import UserError
from leakbench.defences import Defence, Update, sparse


def middle(value: Tensor, largest: float, smallest: float) -> Tensor:
    """Return a tensor with zeros in place of its largest and smallest coordinates by magnitude."""
    flat = value.flatten()
    count = len(flat)
    above = min(round(largest * count), count - 1)
    below = min(round(smallest * count), count - 1 - above)
    kept = flat.abs().argsort(stable=True)[below : count - above]
    return torch.zeros_like(flat).scatter(0, kept, flat[kept]).view_as(value)


def dgp(
    *,
    largest: Annotated[float, Field(ge=0, lt=1)] = 0.05,
    smallest: Annotated[float, Field(ge=0, lt=1)] = 0.75,
    feedback: bool = True,
) -> Defence:
    """Send the coordinates of each tensor whose magnitudes are neither among the largest nor the smallest.

    The client keeps what it dropped and adds it to its next update (error feedback). The authors released no
    code. Two things are assumptions that were not read in the paper: pruning goes tensor by tensor, and both
    defaults (0.05 and 0.75).

    largest: k1, the share of each tensor that is dropped, the largest coordinates first.
    smallest: k2, the share of each tensor that is dropped, the smallest coordinates first.
    feedback: whether what was dropped in a round is added to the update of the next round.

    Raises UserError if the two shares leave nothing.
    """
    if largest + smallest >= 1:
        raise UserError(
            f"defence.parameters: largest ({largest:g}) and smallest ({smallest:g}) drop every coordinate "
            "(choose shares that add up to less than 1)"
        )

    def rounds(update: Update, memory: Update, rng: torch.Generator) -> Update:
        sent = {}
        for name, value in update.items():
            whole = value + memory[name] if name in memory else value
            sent[name] = middle(whole, largest, smallest)
            if feedback:
                memory[name] = whole - sent[name]
        return sent

    return Defence(rounds=rounds, bits=sparse)
