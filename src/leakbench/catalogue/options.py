"""The options of torch's optimisers besides the learning rate, written out because planning needs no torch.

Two kinds of options are left out: the switches of how torch computes a step (such as `fused`), which
leakbench itself sets, and options that are no single number. A test compares the rest with torch's
signatures.
"""

from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, validated
from leakbench.catalogue.load import file_of, load_kind

_AtLeast0 = Annotated[float, Field(ge=0)]


class _Options(Strict):
    """The options of every optimiser. `true` is no number here."""

    model_config = ConfigDict(strict=True)

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


def check_options(optimiser: str, options: dict[str, bool | float], where: str) -> None:
    """Raise UserError for an option that an optimiser does not take, or a value that it refuses.

    optimiser: the name of the optimiser in YAML.
    options: name → value of each option.
    where: what a message calls the training, followed by a colon or a dot.
    """
    found = validated(TAKEN[optimiser], options, f"{where}options.")
    if isinstance(found, Sgd) and found.nesterov and (not found.momentum or found.dampening):
        raise UserError(f"{where}options.nesterov: needs momentum and no dampening (set momentum above 0)")


def check_catalogue(config: Path) -> None:
    """Raise UserError if a victim, a generator or a training of a catalogue has a wrong option."""
    for kind, within in (("victims", "training."), ("generators", "training."), ("trainings", "")):
        # A catalogue may lack the folder of a kind that no experiment names.
        for name, entry in load_kind(config, kind).items() if (config / kind).is_dir() else ():
            training = entry.training if within else entry
            if training and training.options:
                file = file_of(config, kind, name)
                variant = name.removeprefix(file.stem).removeprefix("-")
                of = f"variants.{variant}: " if variant else ""
                check_options(training.optimiser, training.options, f"{file}: {of}{within}")
