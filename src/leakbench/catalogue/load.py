"""The reader of config/*/*.yaml into validated entries. Each mistake is one line that names file and key."""

import re
import reprlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, place
from leakbench.base.yamls import read_yaml, suggest, validated
from leakbench.catalogue import sections
from leakbench.catalogue.experiment import Drawing, Experiment
from leakbench.catalogue.regime import Regime
from leakbench.catalogue.schema import KINDS, Attack, Federation, Part
from leakbench.catalogue.signature import check_signature, module_file, parameters_model, part_names
from leakbench.catalogue.strict import LARGEST_SEED, MOST, NAME

# The keys of a training that name a file in the room of the same name.
RULES = ("aggregation", "encryption")


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with the keys of `over` in place of its own. Mappings are merged."""
    out = dict(base)
    for key, value in over.items():
        out[key] = (
            merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
        )
    return out


def _varied(kind: str, value: dict[str, Any], changes: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a file's value with a variant's changes. Changes of an attack's sections change its parts."""
    if kind != "attacks":
        return merge(value, changes)
    parts = {}
    for key in (key for key in SECTIONS if key in changes):
        try:
            parts[key] = sections.varied(value.get(key), changes[key], key)
        except ValueError as problem:
            raise UserError(f"{where}.{key}: {problem} (see config/README.md)") from problem
    return merge(value, {key: change for key, change in changes.items() if key not in parts}) | parts


def validate(kind: str, stem: str, where: str, value: dict[str, Any]) -> BaseModel:
    """Check one resolved mapping against its kind and, for a part, against its function's signature.

    kind: the kind of the entry, such as `attacks`.
    stem: the name of its file, which is the module of a part that names no other module.
    where: what a message calls the entry.
    value: the mapping.

    Returns the entry with every default filled in. Raises UserError at the first mistake.
    """
    entry = validated(KINDS[kind], value, f"{where}: ")
    if wrong := next(too_large(value), ""):
        raise UserError(f"{where}: {wrong} (see config/README.md)")
    if isinstance(entry, Regime):
        rules = {room: rule for room in RULES if (rule := getattr(entry, room))}
        rooms = {
            room: {"parameters": _parameters(room, rule.module, rule.parameters, f"{where}: {room}.")}
            for room, rule in rules.items()
        }
        return entry.model_copy(
            update={room: rule.model_copy(update=rooms[room]) for room, rule in rules.items()}
        )
    if isinstance(entry, Experiment):
        figure = [_drawn(part, f"{where}: figure.") for part in entry.figure]
        return entry.model_copy(update={"figure": figure})
    if isinstance(entry, Federation) and entry.watched:
        for detector in part_names("detectors"):
            check_signature("detectors", detector)
    if not isinstance(entry, Part):
        return entry
    module = entry.module or stem
    filled: dict[str, Any] = {"module": module}
    if isinstance(entry, Attack):
        _known(kind, module, f"{where}: module")
        sections.check(module, entry.model_dump(), f"{where}: ")
        for section, room in SECTIONS.items():
            filled[section] = {
                name: _parameters(room, name, given, f"{where}: {section}.", f"{name}.")
                for name, given in getattr(entry, section).items()
            }
    filled["parameters"] = _parameters(kind, module, entry.parameters, f"{where}: ")
    found = entry.model_copy(update=filled)
    if isinstance(found, Attack):
        sections.check_fit(found.model_dump(), f"{where}: ")
    return found


def too_large(value: Any, *keys: str) -> Iterator[str]:
    """Yield a message for each number of a YAML or a spec that is larger than any job needs.

    value: what the file holds at `keys`.
    keys: the keys at which it lies.
    """
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from too_large(inside, *keys, str(key))
    elif isinstance(value, int | float):
        most = LARGEST_SEED if {"seed", "seeds"} & {*keys} else MOST
        if not abs(value) <= most:
            yield f"{'.'.join(keys)}: {reprlib.repr(value)} is beyond {most}"


def _drawn(part: Drawing, where: str) -> Drawing:
    """Return a part of a figure with every argument of its drawing.

    Raises UserError for an argument that the drawing does not take.
    """
    given = dict(part.model_extra or {})
    known = part_names("drawing")
    if part.drawing not in known:
        raise UserError(
            f"{where}drawing: '{part.drawing}' is no drawing of src/leakbench/results/figures "
            f"({suggest(part.drawing, known)})"
        )
    arguments = _parameters("drawing", part.drawing, given, where, key="")
    return Drawing.model_validate({"drawing": part.drawing, **arguments})


def _parameters(
    room: str, module: str, given: dict[str, Any], where: str, key: str = "parameters."
) -> dict[str, Any]:
    """Return the keyword arguments of a part's function: those in `given`, and the defaults of the others.

    Raises UserError for an argument that the function does not take, and for a function that is no part of
    its room.
    """
    _known(room, module, f"{where}module")
    check_signature(room, module)
    return validated(parameters_model(room, module), given, f"{where}{key}").model_dump()


def _known(room: str, module: str, where: str) -> None:
    """Raise UserError at `where` if a room has no file of that name."""
    file = module_file(room, module)
    if not file.is_file():
        nearest = suggest(module, part_names(room))
        raise UserError(f"{where}: no file {file.name} in src/leakbench/{place(room)} ({nearest})")


@cache
def files_of(config: Path, kind: str) -> list[Path]:
    """Return the YAML files of a kind, sorted by name: those of config/<kind>.

    Experiments are those in the folders of all papers.
    """
    if kind == "experiments":
        papers = config.parent / "papers"
        if not papers.is_dir():
            raise UserError(f"{papers}: no such folder (is this the root of a leakbench checkout?)")
        return sorted(papers.glob("*/experiments/*.yaml"), key=lambda path: path.name)
    folder = config / kind
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder (is this the root of a leakbench checkout?)")
    return sorted(folder.glob("*.yaml"))


@cache
def load_kind(config: Path, kind: str) -> dict[str, Any]:
    """Return name → validated entry for every YAML file of `kind`.

    Each key of a file's `variants:` makes a further entry <file>-<variant>.
    """
    entries: dict[str, Any] = {}
    for path in files_of(config, kind):
        value = read_yaml(path)
        variants = value.pop("variants", {})
        if not isinstance(variants, dict) or not all(isinstance(v, dict | None) for v in variants.values()):
            raise UserError(
                f"{path}: variants: must map each name to the keys it changes (see config/README.md)"
            )
        resolved = {path.stem: (str(path), {})} | {
            f"{path.stem}-{variant}": (f"{path}: variants.{variant}", changes or {})
            for variant, changes in variants.items()
        }
        for name, (where, changes) in resolved.items():
            # Names become paths and patterns of paths.
            if not re.fullmatch(NAME, name):
                raise UserError(
                    f"{where}: {name!r} is no name (use small letters, digits, dots and hyphens, at most 100)"
                )
            if name in entries:
                raise UserError(f"{where}: '{name}' exists already (rename the variant)")
            entries[name] = validate(kind, path.stem, where, _varied(kind, value, changes, where))
    return entries


@cache
def file_of(config: Path, kind: str, name: str) -> Path:
    """Return the YAML file that entry `name` comes from: its own, or the one of which it is a variant."""
    files = {path.stem: path for path in files_of(config, kind)}
    parents = [stem for stem in files if name == stem or name.startswith(f"{stem}-")]
    return files.get(max(parents, key=len, default=""), config / kind / f"{name}.yaml")


def find(config: Path, kind: str, name: str, where: str) -> Any:
    """Return one entry of the catalogue.

    config: the folder of the catalogue.
    kind: the kind of the entry, such as `attacks`.
    name: the name of the entry.
    where: what a message calls the place that names the entry.

    Raises UserError with the nearest known name if there is no such entry.
    """
    entries = load_kind(config, kind)
    if name not in entries:
        raise UserError(f"{where}: {kind[:-1]} '{name}' is not in {config / kind} ({suggest(name, entries)})")
    return entries[name]
