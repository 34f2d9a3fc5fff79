"""Which source files a verb's result depends on: the import closure within the package, read from the
source."""

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def _imports(path: Path) -> frozenset[Path]:
    """Return the package's files that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(file for name in names if name.startswith("leakbench.") and (file := _file(name)))


@cache
def _file(module: str) -> Path | None:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def closure(*modules: str) -> tuple[Path, ...]:
    """Return, sorted, the package's files that `modules` (dotted names) reach through their imports."""
    found: set[Path] = set()
    queue = {file for name in modules if (file := _file(name))}
    while queue:
        found |= queue
        queue = {file for path in queue for file in _imports(path)} - found
    return tuple(sorted(found))


def code_digest(*modules: str) -> str:
    """Return the sha256 over names and bytes of the closure of `modules`."""
    digest = hashlib.sha256()
    for path in closure(*modules):
        digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
