"""Signatures and docstrings, read from the source, and docs/api.md, which is made of them."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leakbench import PUBLIC
from leakbench.base.code import PACKAGE

Row = tuple[str, ...]


def table(rows: Iterable[Row], heads: Row) -> str:
    """Return a Markdown table of rows of cells below their heads."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


INTRODUCTION = """\
# The Python interface

`python -m leakbench manual` writes this page from the docstrings. Do not edit it: edit them.

    import leakbench

imports nothing but this list of names; each loads its libraries when it is first used. Every mistake of a
caller is one `leakbench.UserError`, whose text says what is wrong and how to mend it.
"""
_ARGUMENT = re.compile(r"^(\w+): ", re.MULTILINE)
# What a docstring says of an argument, to the next argument or the end of the paragraph.
_MEANING = r"^{}: ((?:.+\n?)+?)(?=^\w+: |\n|\Z)"


def api() -> str:
    """Return the text of docs/api.md."""
    return "\n".join([INTRODUCTION, *map(_entry, PUBLIC)])


def _entry(name: str) -> str:
    node = public(name)
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        return f"## leakbench.{name}\n\n{listed(text)}\n"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    signature = f"leakbench.{name}({ast.unparse(node.args)}){returns}"
    lines = [f"## leakbench.{name}", f"```python\n{signature}\n```"]
    rows = [
        (f"`{key}`", f"`{kind}`", f"`{default}`" if default else "**required**", meaning)
        for key, (kind, default, meaning) in arguments(node).items()
    ]
    for paragraph in text.split("\n\n"):
        described = rows and paragraph.startswith(f"{node.args.args[0].arg}: ")
        lines.append(table(rows, ("argument", "type", "default", "meaning")) if described else paragraph)
    return "\n\n".join(lines) + "\n"


def public(name: str) -> Any:
    """Return the node of a public function or class."""
    path = PACKAGE.joinpath(*PUBLIC[name].split(".")[1:])
    file = path.with_suffix(".py")
    return definition(file if file.is_file() else path / "__init__.py", name)


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
