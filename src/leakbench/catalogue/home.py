"""The folder in which the catalogue's YAML lies."""

from pathlib import Path

from leakbench.base.code import PACKAGE


def home() -> Path:
    """Return the folder of the catalogue: the copy within an installed wheel, or `config` of the checkout."""
    inside = PACKAGE / "config"
    return inside if inside.is_dir() else PACKAGE.parents[1] / "config"
