"""The options of torch's optimisers besides the learning rate, written out because planning needs no torch.

Two kinds of options are left out: the switches of how torch computes a step (such as `fused`), which
leakbench itself sets, and options that are no single number. A test compares the rest with torch's
signatures.
"""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, validated

_AtLeast0 = Annotated[float, Field(ge=0)]


class _Options(Strict):
    """The options of every optimiser. `true` is no number here."""

    weight_decay: _AtLeast0 = 0
    maximize: bool = False


class Sgd(_Options):
    """The options of torch.optim.SGD."""

    momentum: _AtLeast0 = 0
    dampening: float = 0
    nesterov: bool = False


class Adam(_Options):
    """The options of torch.optim.Adam."""

    eps: _AtLeast0 = 0
    amsgrad: bool = False
    decoupled_weight_decay: bool = False


class Adadelta(_Options):
    """The options of torch.optim.Adadelta."""

    rho: Annotated[float, Field(ge=0, le=1)] = 0
    eps: _AtLeast0 = 0


TAKEN: dict[str, type[_Options]] = {"sgd": Sgd, "adam": Adam, "adadelta": Adadelta}


def _fitting(options: dict[str, bool | float], others: ValidationInfo) -> dict[str, bool | float]:
    """Return options. Raises ValueError for one that the training's optimiser does not take or refuses."""
    if "optimiser" in others.data:
        try:
            found = validated(TAKEN[others.data["optimiser"]], options, "")
        except UserError as problem:
            raise ValueError(str(problem)) from problem
        if isinstance(found, Sgd) and found.nesterov and (not found.momentum or found.dampening):
            raise ValueError("nesterov: needs momentum and no dampening (set momentum above 0)")
    return options


# The options of a training, in a model that has an `optimiser` above them.
Options = Annotated[dict[str, bool | float], AfterValidator(_fitting)]
