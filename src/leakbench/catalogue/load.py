"""Read config/*/*.yaml into validated entries; every mistake is one line that names file and key."""

import difflib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from leakbench.catalogue.regime import Regime
from leakbench.catalogue.schema import KINDS, Part
from leakbench.catalogue.signature import module_file, parameters_model
from leakbench.errors import UserError

# The keys of a training that name a file of the room of that name.
RULES = ("aggregation", "encryption")


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
        value = yaml.load(path.read_text(), Loader=_Loader)
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


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `over` laid upon it, mappings merged."""
    out = dict(base)
    for key, value in over.items():
        out[key] = (
            merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
        )
    return out


def validate(kind: str, stem: str, where: str, value: dict[str, Any]) -> BaseModel:
    """Check one resolved mapping against its kind and, for a part, against its function's signature.

    `stem` is the file's own name, a part's module unless it names another; `where` is what a message calls the entry.
    """
    model = KINDS[kind]
    try:
        entry = model.model_validate(value)
    except ValidationError as problem:
        raise UserError(f"{where}: {_mistake(problem, list(model.model_fields))}") from problem
    if isinstance(entry, Regime):
        rules = {room: rule for room in RULES if (rule := getattr(entry, room))}
        filled = {
            room: {"parameters": _parameters(room, rule.module, rule.parameters, f"{where}: {room}.")}
            for room, rule in rules.items()
        }
        return entry.model_copy(
            update={room: rule.model_copy(update=filled[room]) for room, rule in rules.items()}
        )
    if not isinstance(entry, Part):
        return entry
    module = entry.module or stem
    return entry.model_copy(
        update={"module": module, "parameters": _parameters(kind, module, entry.parameters, f"{where}: ")}
    )


def _parameters(room: str, module: str, given: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the keywords of a part's function, `given` and default ones. Raises UserError for what it does not take."""
    file = module_file(room, module)
    if not file.is_file():
        known = [
            path.stem.replace("_", "-") for path in file.parent.glob("*.py") if not path.stem.startswith("_")
        ]
        raise UserError(
            f"{where}module: no file {file.name} in src/leakbench/{room} ({suggest(module, known)})"
        )
    parameters = parameters_model(room, module)
    try:
        return parameters.model_validate(given).model_dump()
    except ValidationError as problem:
        raise UserError(f"{where}parameters.{_mistake(problem, list(parameters.model_fields))}") from problem


def _mistake(problem: ValidationError, fields: list[str]) -> str:
    """Return the first mistake in one line: key, what is wrong with its value, how to mend it."""
    error = problem.errors()[0]
    key = ".".join(str(part) for part in error["loc"]) or "(whole file)"
    given = "" if error["type"] in ("missing", "value_error") else f", got {error['input']!r}"
    mend = "see config/README.md"
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        mend = suggest(str(error["loc"][0]), fields)
    return f"{key}: {' '.join(error['msg'].split())}{given} ({mend})"


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
            raise UserError(
                f"{path}: variants: must map each name to the keys it changes (see config/README.md)"
            )
        resolved = {path.stem: (str(path), value)}
        for variant, changes in variants.items():
            resolved[f"{path.stem}-{variant}"] = (f"{path}: variants.{variant}", merge(value, changes or {}))
        for name, (where, mapping) in resolved.items():
            if name in entries:
                raise UserError(f"{where}: '{name}' exists already (rename the variant)")
            entries[name] = validate(kind, path.stem, where, mapping)
    return entries


def file_of(config: Path, kind: str, name: str) -> Path:
    """Return the YAML that entry `name` comes from: its own, or the one it is a variant of."""
    stems = [path.stem for path in (config / kind).glob("*.yaml")]
    parents = [stem for stem in stems if name == stem or name.startswith(f"{stem}-")]
    return config / kind / f"{max(parents, key=len, default=name)}.yaml"


def find(config: Path, kind: str, name: str, where: str) -> BaseModel:
    """Return entry `name` of `kind`; raises UserError at `where` with the nearest known name."""
    entries = load_kind(config, kind)
    if name not in entries:
        raise UserError(f"{where}: {kind[:-1]} '{name}' is not in {config / kind} ({suggest(name, entries)})")
    return entries[name]
