"""manual: write config/README.md, config/schemas/ and docs/api.md from models and docstrings."""

from pathlib import Path

from leakbench.catalogue.blame import blamed
from leakbench.catalogue.digest import write_changed
from leakbench.catalogue.manual import manual as texts


def manual(root: Path) -> None:
    """Write each generated file of the checkout `root` whose text changed."""
    with blamed(root / "config"):
        made = texts(root)
    for name, text in made.items():
        write_changed(root / name, text)
