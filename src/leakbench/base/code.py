"""The source files that a verb's result depends on: the closure of imports, read from the source."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leakbench.base.parts import parts_of

PACKAGE = Path(__file__).resolve().parents[1]


def home() -> Path:
    """Return the folder of the catalogue: the copy within an installed wheel, or `config` of the checkout."""
    inside = PACKAGE / "config"
    return inside if inside.is_dir() else PACKAGE.parents[1] / "config"


# What is imported for its type alone changes no result.
_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from (leakbench[\w.]*) import (\([^)]*\)|.*)|import (leakbench.*))$", re.MULTILINE
)


@cache
def _imports(path: Path) -> frozenset[Path]:
    """Return the package's files that a file imports."""
    names: set[str] = set()
    for room, parts, whole in _IMPORT.findall(_TYPES.sub("", path.read_text("utf-8"))):
        names |= {room, *(f"{room}.{part}" for part in re.findall(r"\w+", parts))}
        names |= {*re.findall(r"[\w.]+", whole)}
    return frozenset(file for name in names if name.startswith("leakbench.") and (file := _file(name)))


@cache
def _file(module: str) -> Path | None:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return next(filter(Path.is_file, (path.with_suffix(".py"), path / "__init__.py")), None)


@cache
def closure(*modules: str) -> tuple[Path, ...]:
    """Return the package's files that `modules` (dotted names) reach through their imports, sorted."""
    found: set[Path] = set()
    queue = {file for name in modules if (file := _file(name))}
    while queue:
        found |= queue
        queue = {file for path in queue for file in _imports(path)} - found
    return tuple(sorted(found))


@cache
def _named_bytes(path: Path) -> bytes:
    return str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0"


@cache
def code_digest(*modules: str) -> str:
    digest = hashlib.sha256()
    for path in closure(*modules):
        digest.update(_named_bytes(path))
    return digest.hexdigest()


def code_of(spec: Mapping[str, Any], *modules: str) -> str:
    """Return the digest of the code that a result depends on: `modules`, and the parts that `spec` names."""
    return code_digest(*sorted({*modules, *parts_of(spec)}))
