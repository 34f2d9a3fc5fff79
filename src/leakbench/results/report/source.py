"""The address at which the code of the checkout is published, so that a commit can be a link."""

from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.base.yamls import read_yaml

KEY = "repository-code"


def commits(root: Path) -> str:
    """Return the address that a commit's name follows, or "" if none is known."""
    file = root / "CITATION.cff"
    address = str(read_yaml(file).get(KEY, "")) if file.is_file() else ""
    if address and not address.startswith("https://"):
        raise UserError(f"{file}: {KEY}: {address!r} is no https address (mend it, or leave it out)")
    return f"{address.rstrip('/').removesuffix('.git')}/commit/" if address else ""
