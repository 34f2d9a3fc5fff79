"""Reads YAML mappings strictly.

A repeated key, a file that is no mapping, or broken text is one line with file and key.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from leakbench.errors import UserError

M = TypeVar("M", bound=BaseModel)


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is no plain word", problem_mark=key_node.start_mark)
            if key_node.value in seen:
                problem = f"key '{key_node.value}' is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the nearest known name, or the list of them if none is near."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known) or 'none'}"


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping. Raises UserError naming file and line."""
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else "?"
        what = " ".join((problem.problem or "not YAML").split())
        raise UserError(f"{path}: line {line}: {what} (mend the YAML)") from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise UserError(f"{path}: not YAML text: {str(problem).splitlines()[0]} (mend the file)") from problem
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror} (mend the file)") from problem
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no mapping of keys (see config/README.md)")
    return value


def validated(model: type[M], value: Any, where: str, manual: str = "config/README.md") -> M:
    """Return a value as its model has it. Raises UserError with the first mistake, at `where`."""
    try:
        return model.model_validate(value)
    except ValidationError as problem:
        raise UserError(f"{where}{_mistake(problem, model.model_fields, manual)}") from problem


def _mistake(problem: ValidationError, fields: Iterable[str], manual: str) -> str:
    """Return pydantic's first mistake in one line: key, what is wrong with its value, how to mend it."""
    error = problem.errors()[0]
    key = ".".join(str(part) for part in error["loc"]) or "(whole file)"
    given = "" if error["type"] in ("missing", "value_error") else f", got {error['input']!r}"
    mend = f"see {manual}"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        mend = suggest(str(error["loc"][0]), fields)
    return f"{key}: {' '.join(error['msg'].split())}{given} ({mend})"
