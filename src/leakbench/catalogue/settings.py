"""The settings of `--config`, checked before anything is planned, and the name of a run's folders."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, validated
from leakbench.catalogue.strict import Name, Seed

MANUAL = "docs/workflow.md"


def _device(name: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", name):
        raise ValueError(f"no device, got {name!r} (write cpu, cuda, or cuda: with a number)")
    return name


class Settings(Strict):
    """The keys of `snakemake --config` (docs/workflow.md explains them).

    scale: the name of a file of config/scales.
    seed: a whole number from 0 to LARGEST_SEED that is added to all seeds, or None.
    only: the names of the experiments that run, separated by commas, or None for all.
    device: the device on which attacks and training studies compute.
    confirm: whether a long run is meant.
    """

    scale: Name = "quick"
    seed: Seed | None = None
    only: Annotated[str, Field(pattern=r"^[a-z0-9-]+(,[a-z0-9-]+)*$")] | None = None
    device: Annotated[str, AfterValidator(_device)] = "cpu"
    # Snakemake gives `confirm=yes` as a word.
    confirm: Annotated[bool, Field(strict=False)] = False


def checked(config: Mapping[str, Any]) -> Settings:
    """Return the settings of `--config`.

    Raises UserError for an unknown key, for a key without a value, or for a value that does not fit.
    """
    # `--config only=` gives no value, which must not be read as "all of them".
    if empty := next((key for key, value in config.items() if value is None), ""):
        raise UserError(f"--config {empty}: is given without a value (write one, or leave the key out)")
    return validated(Settings, dict(config), "--config ", MANUAL)


def run_name(scale: str, seed: int | None) -> str:
    """Return the name of a run's folders below results/ and logs/."""
    return scale if seed is None else f"{scale}-seed{seed}"
