"""docs/api.md: the public functions and classes, from their signatures and docstrings."""

import ast
import re
from collections.abc import Iterable

from leakbench import PUBLIC
from leakbench.base.code import PACKAGE
from leakbench.catalogue.table import table

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
    node = _definition(name)
    text = ast.get_docstring(node) or ""
    if isinstance(node, ast.ClassDef):
        return f"## leakbench.{name}\n\n{listed(text)}\n"
    lines = [f"## leakbench.{name}", f"```python\n{_signature(node)}\n```"]
    rows = arguments(node)
    for paragraph in text.split("\n\n"):
        if _ARGUMENT.match(paragraph) and paragraph.partition(":")[0] in rows:
            heads = ("argument", "type", "default", "meaning")
            lines.append(table([(f"`{key}`", *row) for key, row in rows.items()], heads))
        else:
            lines.append(paragraph)
    return "\n\n".join(lines) + "\n"


def _definition(name: str) -> ast.FunctionDef | ast.ClassDef:
    path = PACKAGE.joinpath(*PUBLIC[name].split(".")[1:])
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    raise LookupError(f"{file}: defines no {name}")


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"leakbench.{node.name}({ast.unparse(node.args)}){returns}"


def arguments(node: ast.FunctionDef) -> dict[str, tuple[str, str, str]]:
    """Return argument → type, default and meaning; the meaning is what the docstring says behind `name: `."""
    text = ast.get_docstring(node) or ""
    given = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(given) - len(node.args.defaults))
    pairs = [*zip(given, [*defaults, *node.args.defaults], strict=True)]
    pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    out = {}
    for argument, default in pairs:
        own = re.search(_MEANING.format(argument.arg), text, re.MULTILINE)
        meaning = " ".join(own[1].split()) if own else ""
        kind = f"`{ast.unparse(argument.annotation)}`" if argument.annotation else ""
        out[argument.arg] = kind, f"`{ast.unparse(default)}`" if default else "**required**", meaning
    return out


def listed(text: str) -> str:
    """Return a docstring with its arguments as a list of Markdown."""
    return _ARGUMENT.sub(r"- `\1`: ", text)


def without(text: str, names: Iterable[str]) -> str:
    """Return a docstring without what it says of the arguments `names`."""
    for name in names:
        text = re.sub(_MEANING.format(name), "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
