"""The schema of a part: its keyword arguments, read from the source. (An import may need torch.)"""

import ast
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from leakbench.catalogue.code import PACKAGE
from leakbench.errors import UserError
from leakbench.parts import stem

_NAMES = {
    "int": int, "float": float, "str": str, "bool": bool, "list": list, "dict": dict, "tuple": tuple,
    "None": None, "Literal": Literal, "Annotated": Annotated, "Field": Field,
}  # fmt: skip


def module_file(room: str, module: str) -> Path:
    """Return the file of part `module` in `room`. The file need not exist."""
    return PACKAGE / room / f"{stem(module)}.py"


@cache
def part_names(room: str) -> list[str]:
    """Return the parts of a room by their names in YAML: its files that hold a function of their own name."""
    files = sorted((PACKAGE / room).glob("*.py"))
    return [path.stem.replace("_", "-") for path in files if f"\ndef {path.stem}(" in path.read_text()]


@cache
def definition(room: str, module: str) -> ast.FunctionDef:
    """Return the function that a part's file is named after. Raises UserError if the file has none."""
    path = module_file(room, module)
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == path.stem:
            return node
    raise UserError(f"{path}: no function '{path.stem}' (a part's file holds a function of its own name)")


@cache
def parameters_model(room: str, module: str) -> type[BaseModel]:
    """Return a pydantic model of the keyword-only arguments of the function that a file is named after.

    Raises UserError if the file holds no such function, or if an annotation uses other names than those of
    the plain vocabulary `_NAMES`.
    """
    path, node = module_file(room, module), definition(room, module)
    fields: dict[str, Any] = {}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        text = ast.unparse(argument.annotation) if argument.annotation else "missing"
        try:
            annotation = eval(text, {"__builtins__": {}}, _NAMES)
            value = ... if default is None else ast.literal_eval(default)
        except (NameError, SyntaxError, ValueError, TypeError) as problem:
            raise UserError(
                f"{path}: {path.stem}({argument.arg}: {text}): not a plain annotation ({problem})"
            ) from problem
        fields[argument.arg] = (annotation, value)
    return create_model(
        f"{room}.{module}",
        __config__=ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False),
        **fields,
    )
