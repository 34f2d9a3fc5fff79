"""The reader of config/*/*.yaml into validated entries. Each mistake is one line that names file and key."""

import itertools
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, place
from leakbench.base.yamls import KEYS, LARGEST, LARGEST_SEED, NAME, read_yaml, suggest, validated
from leakbench.catalogue import sections
from leakbench.catalogue.cell import Spec
from leakbench.catalogue.experiment import Drawing, Experiment
from leakbench.catalogue.regime import Regime
from leakbench.catalogue.schema import KINDS, AttackEntry, Federation, Part
from leakbench.catalogue.signature import check_signature, module_file, parameters_model, part_names

# The keys of a training that name a file in the room of the same name.
RULES = ("aggregation", "encryption")


def merge(base: Spec, over: Spec) -> Spec:
    """Return `base` with the keys of `over` in place of its own. Mappings are merged."""
    out = base | over
    for key in base.keys() & over.keys():
        if isinstance(base[key], dict) and isinstance(over[key], dict):
            out[key] = merge(base[key], over[key])
    return out


def _varied(kind: str, value: Spec, changes: Spec, where: str) -> Spec:
    """Return a file's value with a variant's changes. Changes of an attack's sections change its parts."""
    if kind != "attacks":
        return merge(value, changes)
    parts = {}
    for key in (key for key in SECTIONS if key in changes):
        try:
            parts[key] = sections.varied(value.get(key), changes[key], key)
        except ValueError as problem:
            raise UserError(f"{where}.{key}: {problem} (see {KEYS})") from problem
    return merge(value, {key: change for key, change in changes.items() if key not in parts}) | parts


def validate(kind: str, stem: str, where: str, value: Spec) -> BaseModel:
    """Return a mapping as an entry of its kind with every default, checked against its part's signature."""
    entry = validated(KINDS[kind], value, f"{where}: ")
    if wrong := next(too_large(value), ""):
        raise UserError(f"{where}: {wrong} (see {KEYS})")
    if isinstance(entry, Regime):
        rules = {}
        for room in RULES:
            if rule := getattr(entry, room):
                given = _parameters(room, rule.module, rule.parameters, f"{where}: {room}.")
                rules[room] = rule.model_copy(update={"parameters": given})
        return entry.model_copy(update=rules)
    if isinstance(entry, Experiment):
        figure = [_drawn(part, f"{where}: figure.") for part in entry.figure]
        return entry.model_copy(update={"figure": figure})
    if isinstance(entry, Federation) and entry.watched:
        for detector in part_names("detectors"):
            check_signature("detectors", detector)
    if not isinstance(entry, Part):
        return entry
    module = entry.module or stem
    filled: Spec = {"module": module}
    if isinstance(entry, AttackEntry):
        _known(kind, module, f"{where}: module")
        sections.check(module, entry.model_dump(), f"{where}: ")
        for section, room in SECTIONS.items():
            filled[section] = {
                name: _parameters(room, name, given, f"{where}: {section}.", f"{name}.")
                for name, given in getattr(entry, section).items()
            }
    filled["parameters"] = _parameters(kind, module, entry.parameters, f"{where}: ")
    found = entry.model_copy(update=filled)
    if isinstance(found, AttackEntry):
        sections.check_fit(found.model_dump(), f"{where}: ")
    return found


def too_large(value: Any, *keys: str) -> Iterator[str]:
    """Yield a message for each number that is larger than any job needs, of what a file holds at `keys`."""
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from too_large(inside, *keys, str(key))
    elif isinstance(value, int | float):
        most = LARGEST_SEED if {"seed", "seeds"} & {*keys} else LARGEST
        if not abs(value) <= most:
            yield f"{'.'.join(keys)}: {reprlib.repr(value)} is beyond {most}"


def _drawn(part: Drawing, where: str) -> Drawing:
    if part.drawing not in (known := part_names("drawing")):
        raise UserError(
            f"{where}drawing: '{part.drawing}' is no drawing of src/leakbench/results/figures "
            f"({suggest(part.drawing, known)})"
        )
    arguments = _parameters("drawing", part.drawing, dict(part.model_extra or {}), where, key="")
    return Drawing.model_validate({"drawing": part.drawing, **arguments})


def _parameters(room: str, module: str, given: Spec, where: str, key: str = "parameters.") -> Spec:
    """Return the keyword arguments of a part's function: those in `given`, and the defaults of the others."""
    _known(room, module, f"{where}module")
    check_signature(room, module)
    return validated(parameters_model(room, module), given, f"{where}{key}").model_dump()


def _known(room: str, module: str, where: str) -> None:
    file = module_file(room, module)
    if not file.is_file():
        nearest = suggest(module, part_names(room))
        raise UserError(f"{where}: no file {file.name} in src/leakbench/{place(room)} ({nearest})")


@cache
def files_of(config: Path, kind: str) -> list[Path]:
    """Return the YAML files of a kind by name: those of config/<kind>, or the experiments of all papers."""
    folder, pattern = config / kind, "*.yaml"
    if kind == "experiments":
        folder, pattern = config.parent / "papers", "*/experiments/*.yaml"
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder (is this the root of a leakbench checkout?)")
    return sorted(folder.glob(pattern), key=lambda path: path.name)


def _written(value: Spec, path: Path) -> Iterator[tuple[str, str, list[Spec]]]:
    """Yield (name, place in messages, changes) of each entry of a file, and take out `variants` and `grid`.

    A point of a grid has a word of each axis in its name, and the changes of them all.
    """
    variants, grid = value.pop("variants", {}), value.pop("grid", [])
    if not _mapping_of_changes(variants):
        raise UserError(f"{path}: variants: must map each name to the keys it changes (see {KEYS})")
    if not isinstance(grid, list) or not all(
        isinstance(axes, list) and axes and all(map(_mapping_of_changes, axes)) for axes in grid
    ):
        raise UserError(
            f"{path}: grid: must list lists of axes, each of which maps words to the keys that they "
            f"change (see {KEYS})"
        )
    yield path.stem, str(path), []
    for where, axes in [("variants.", [variants]), *(("grid: ", axes) for axes in grid)]:
        for point in itertools.product(*map(dict.items, axes)):
            name = "-".join(str(word) for word, _ in point if word != "")
            yield f"{path.stem}-{name}", f"{path}: {where}{name}", [changes or {} for _, changes in point]


def _mapping_of_changes(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(changes, dict | None) for changes in value.values())


@cache
def load_kind(config: Path, kind: str) -> Spec:
    """Return name → validated entry of a kind, with those that `variants:` and `grid:` of its files make."""
    entries: Spec = {}
    for path in files_of(config, kind):
        value = read_yaml(path)
        for name, where, changes in _written(value, path):
            # Names become paths and patterns of paths.
            if not re.fullmatch(NAME, name):
                raise UserError(
                    f"{where}: {name!r} is no name (use small letters, digits, dots and hyphens, at most 100)"
                )
            if name in entries:
                raise UserError(f"{where}: '{name}' exists already (rename the variant)")
            if kind == "attacks" and (what := next(filter(None, map(odd, changes or [value])), "")):
                raise UserError(f"{where}{'.' if changes else ': '}{what}")
            whole = value
            for each in changes:
                whole = _varied(kind, whole, each, where)
            entries[name] = validate(kind, path.stem, where, whole)
    return entries


@cache
def file_of(config: Path, kind: str, name: str) -> Path:
    """Return the YAML file that entry `name` comes from: its own, or the one of which it is a variant."""
    files = {path.stem: path for path in files_of(config, kind)}
    parents = [stem for stem in files if name == stem or name.startswith(f"{stem}-")]
    return files.get(max(parents, key=len, default=""), config / kind / f"{name}.yaml")


def find(config: Path, kind: str, name: str, where: str) -> Any:
    """Return one entry of the catalogue. Raises UserError at `where` with the nearest name without one."""
    entries = load_kind(config, kind)
    if name not in entries:
        raise UserError(f"{where}: {kind[:-1]} '{name}' is not in {config / kind} ({suggest(name, entries)})")
    return entries[name]


# What an experiment's lists of defences and attacks may say.
ALL = "all"


def every(config: Path, kind: str, names: Sequence[str], but: Sequence[str] = ()) -> list[str]:
    """Return `names`, each once, with `all` replaced by every file of a kind but those of `but`, by name."""
    files = [name for name in stems(config, kind) if name not in but]
    each = (files if name == ALL else [name] for name in names)
    return list(dict.fromkeys(itertools.chain.from_iterable(each)))


@cache
def stems(config: Path, kind: str) -> list[str]:
    return sorted(path.stem for path in files_of(config, kind))


def odd(attack: Mapping[str, Any]) -> str:
    """Describe the first entry in an attack's sections that is no name and no mapping of names, if any."""
    for section in SECTIONS:
        listed = given if isinstance(given := attack.get(section), list) else []
        if wrong := [entry for entry in listed if not isinstance(entry, str | dict)]:
            return f"{section}: {wrong[0]!r} names no part (write a name, or a name with its arguments)"
    return ""
