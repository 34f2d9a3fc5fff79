"""Read config/*/*.yaml into validated entries; every mistake is one line that names file and key."""

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from leakbench.catalogue.schema import KINDS, Part
from leakbench.catalogue.signature import module_file, parameters_model
from leakbench.errors import UserError


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Safe YAML that refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.MarkedYAMLError(problem=f"key '{key}' is given twice", problem_mark=key_node.start_mark) from (
                    ValueError(line)
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the nearest known name, or the list of them if none is near."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known) or 'none'}"


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping. Raises UserError naming file and line."""
    try:
        value = yaml.load(path.read_text(), Loader=_Loader)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else "?"
        raise UserError(f"{path}: line {line}: {problem.problem} (mend the YAML)") from problem
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise UserError(f"{path}: not YAML text: {str(problem).splitlines()[0]} (mend the file)") from problem
    if not isinstance(value, dict):
        raise UserError(f"{path}: holds no mapping of keys (see config/README.md)")
    return value


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `over` laid upon it, mappings merged."""
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def validate(kind: str, path: str, value: dict[str, Any]) -> BaseModel:
    """Check one resolved mapping against its kind and, for a part, against its function's signature."""
    model = KINDS[kind]
    try:
        entry = model.model_validate(value)
        if isinstance(entry, Part):
            module = entry.module or Path(path.split("#")[0]).stem
            if not module_file(kind, module).is_file():
                room = module_file(kind, module).parent
                known = [p.stem for p in room.glob("*.py") if not p.stem.startswith("_")]
                raise UserError(f"{path}: module: no file {module}.py in {kind} ({suggest(module, known)})")
            filled = parameters_model(kind, module).model_validate(entry.parameters)
            entry = entry.model_copy(update={"module": module, "parameters": filled.model_dump()})
    except ValidationError as problem:
        error = problem.errors()[0]
        place = ".".join(str(p) for p in error["loc"]) or "(whole file)"
        if problem.title != model.__name__:
            place = f"parameters.{place}"
        fields = list(model.model_fields) if problem.title == model.__name__ and len(error["loc"]) == 1 else []
        hint = f" ({suggest(str(error['loc'][-1]), fields)})" if error["type"] == "extra_forbidden" and fields else ""
        given = "" if error["type"] == "missing" else f", got {error['input']!r}"
        raise UserError(f"{path}: {place}: {error['msg']}{given}{hint}") from problem
    return entry


@cache
def load_kind(config: Path, kind: str) -> dict[str, BaseModel]:
    """Return name → validated entry for every YAML of `kind`; a `variants:` key makes `<file>-<variant>` of each."""
    folder = config / kind
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder (is this the root of a leakbench checkout?)")
    entries: dict[str, BaseModel] = {}
    for path in sorted(folder.glob("*.yaml")):
        value = read_yaml(path)
        variants = value.pop("variants", {})
        if not isinstance(variants, dict) or not all(isinstance(v, dict | None) for v in variants.values()):
            raise UserError(f"{path}: variants: must map each name to the keys it changes")
        named = {path.stem: value, **{f"{path.stem}-{k}": merge(value, v or {}) for k, v in variants.items()}}
        for name, resolved in named.items():
            if name in entries:
                raise UserError(f"{path}: variants: '{name}' exists already (rename the variant)")
            entries[name] = validate(kind, str(path), resolved)
    return entries


def find(config: Path, kind: str, name: str, where: str) -> BaseModel:
    """Return entry `name` of `kind`; raises UserError at `where` with the nearest known name."""
    entries = load_kind(config, kind)
    if name not in entries:
        raise UserError(f"{where}: {kind[:-1]} '{name}' is not in {config / kind} ({suggest(name, entries)})")
    return entries[name]
