"""manual: write config/README.md, config/schemas/, docs/api.md, docs/cli.md and the citations."""

from pathlib import Path

from leakbench.base.digest import write_changed
from leakbench.catalogue.blame import blamed
from leakbench.catalogue.manual import manual as texts
from leakbench.jobs.parser import page


def manual(root: Path) -> None:
    """Write each generated file whose text changed.

    root: the checkout.
    """
    with blamed(root / "config"):
        made = texts(root) | {"docs/cli.md": page()}
    for name, text in made.items():
        write_changed(root / name, text)
