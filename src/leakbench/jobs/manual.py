"""manual: write config/README.md, config/schemas/, docs/api.md, docs/cli.md and the citations."""

from argparse import ArgumentParser
from pathlib import Path

from leakbench.base.digest import write_changed
from leakbench.catalogue.blame import blamed
from leakbench.catalogue.commands import commands
from leakbench.catalogue.manual import manual as texts


def manual(root: Path, parser: ArgumentParser) -> None:
    """Write each generated file whose text changed.

    root: the checkout.
    parser: the parser of the command line.
    """
    with blamed(root / "config"):
        made = texts(root) | {"docs/cli.md": commands(parser)}
    for name, text in made.items():
        write_changed(root / name, text)
