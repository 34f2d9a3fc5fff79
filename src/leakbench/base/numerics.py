"""Numerics versions: which files of the package have changed numbers on purpose, and how often.

A file whose numbers change on purpose says `NUMERICS = 2`, after the next change 3, and so on. A file that
says nothing has numerics 1. A recorded table holds the versions above 1 of the files that it follows from, so
that it is valid as long as today's versions are the same.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from leakbench.base.code import PACKAGE, closure
from leakbench.base.errors import UserError

_SAYS = re.compile(r"^NUMERICS\b[^=\n]*=?[ \t]*([^#\n]*?)[ \t]*(?:#.*)?$", re.MULTILINE)
_VERSION = re.compile("[1-9][0-9]{0,3}")


@cache
def declared(package: Path = PACKAGE) -> dict[Path, int]:
    """Return file → numerics version, for the files of the package that say one."""
    # Raises UserError for a version that is no positive whole number, and for two files of one name, because
    # records know a file by its name alone and stay valid where the file is moved.
    found: dict[Path, int] = {}
    for path in sorted(package.rglob("*.py")):
        said = _SAYS.findall(path.read_text("utf-8"))
        if not said:
            continue
        if len(said) > 1 or not _VERSION.fullmatch(said[0]):
            told = " and ".join(said) or "nothing"
            raise UserError(
                f"{path}: NUMERICS: is {told} and must be one positive whole number (write 2, then 3)"
            )
        if twin := next((other for other in found if other.stem == path.stem), None):
            raise UserError(f"{path}: NUMERICS: {twin} has the same name (rename one of the two)")
        found[path] = int(said[0])
    return found


def numerics(modules: Iterable[str]) -> dict[str, int]:
    """Return name → version of the files that modules reach through their imports, where it is above 1."""
    raised = {path: version for path, version in declared().items() if version > 1}
    reached = set(closure(*sorted(modules))) if raised else set()
    return {path.stem: version for path, version in raised.items() if path in reached}


def changed(then: dict[str, int], now: dict[str, int]) -> str:
    """Return in words which numerics have changed since a record was made, or "" where none has."""
    odd = sorted(name for name in then.keys() | now.keys() if then.get(name, 1) != now.get(name, 1))
    said = (f"measured with numerics {then.get(n, 1)} of {n}, today's is {now.get(n, 1)}" for n in odd)
    return "; ".join(said)
