"""Signatures and docstrings, read from the source."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TableRow = tuple[str, ...]


def table(rows: Iterable[TableRow], heads: TableRow) -> str:
    """Return a Markdown table of rows of cells below their heads."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


_ARGUMENT = re.compile(r"^(\w+): ", re.MULTILINE)
# What a docstring says of an argument, to the next argument or the end of the paragraph.
_MEANING = r"^{}: ((?:.+\n?)+?)(?=^\w+: |\n|\Z)"


def definition(file: Path, name: str) -> Any:
    """Return the node of a function or class of a file, whose text is parsed to its docstring alone."""
    text = file.read_text("utf-8")
    found = re.search(rf'^(?:def|class) {name}\b.*?""".*?"""', text, re.MULTILINE | re.DOTALL)
    if not found:
        raise LookupError(f"{file}: defines no {name}")
    return ast.parse(found[0]).body[0]


def arguments(node: ast.FunctionDef) -> dict[str, tuple[str, str, str]]:
    """Return argument → type, default and meaning, which is what the docstring says behind `name: `."""
    text = ast.get_docstring(node) or ""
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    before = len(given) - len(node.args.defaults) - len(node.args.kw_defaults)
    defaults = [*[None] * before, *node.args.defaults, *node.args.kw_defaults]
    out = {}
    for argument, default in zip(given, defaults, strict=True):
        own = re.search(_MEANING.format(argument.arg), text, re.MULTILINE)
        kind, value = (ast.unparse(each) if each else "" for each in (argument.annotation, default))
        out[argument.arg] = kind, value, " ".join(own[1].split()) if own else ""
    return out


def listed(text: str) -> str:
    """Return a docstring with its arguments as a list of Markdown."""
    return _ARGUMENT.sub(r"- `\1`: ", text)


def without(text: str, names: Iterable[str]) -> str:
    """Return a docstring without what it says of the arguments `names`."""
    for name in names:
        text = re.sub(_MEANING.format(name), "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
