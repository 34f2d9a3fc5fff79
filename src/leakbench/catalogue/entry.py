"""One entry of the catalogue at a scale: its values, with the scale's caps applied."""

import fnmatch
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, read_yaml, suggest, validated
from leakbench.catalogue.cell import Cell, Spec
from leakbench.catalogue.load import find, load_kind, validate
from leakbench.catalogue.schema import Scale

# Keys that change no result.
FOR_PEOPLE = {"summary", "title"}
# The kinds of entries that a scale may cap → the key that a budget sets.
SIZED = {
    "victims": "training.epochs", "generators": "training.epochs", "federations": "rounds",
    "attacks": "parameters.iterations", "trainings": "rounds",
}  # fmt: skip


@dataclass
class Sizes:
    # Name of a spec → the size in it that the budget sets (SIZED).
    values: dict[str, int] = field(default_factory=dict)
    # <experiment>/<stem> → why the cell or study is left out.
    left_out: dict[str, str] = field(default_factory=dict)
    short: set[str] = field(default_factory=set)  # the keys of the budget that leave out some cell or study


def capped(kind: str, place: str, name: str, value: Spec, scale: Scale, where: str) -> Spec:
    """Return an entry with the scale's caps applied: the smaller of value and cap, or the cap if unset."""
    # A pattern with a slash is compared with <place>/<name>, where the place is the data set, or of an attack
    # <data set>/<victim>/<federation>/<defence>.
    out = dict(value)
    for pattern, caps in scale.caps.get(kind, {}).items():
        if not fnmatch.fnmatchcase(f"{place}/{name}" if "/" in pattern else name, pattern):
            continue
        for path, cap in caps.items():
            where_of = f"{where}: caps.{kind}.{pattern}: '{path}' is no"
            *parents, last = path.split(".")
            inside = out
            for parent in parents:
                if not isinstance(inside.get(parent), dict):
                    raise UserError(f"{where_of} key of {kind[:-1]} '{name}' ({suggest(parent, inside)})")
                inside[parent] = dict(inside[parent])
                inside = inside[parent]
            if inside.get(last, cap) is None:
                inside[last] = int(cap)
            if type(inside.get(last)) not in (int, float):
                known = suggest(last, [key for key, number in inside.items() if type(number) in (int, float)])
                raise UserError(f"{where_of} number of {kind[:-1]} '{name}' ({known})")
            inside[last] = min(inside[last], type(inside[last])(cap))
    return out


def with_values(spec: Spec, *path: str, **values: Any) -> Spec:
    """Return a spec with other values in the mapping at a path."""
    return spec | ({path[0]: with_values(spec[path[0]], *path[1:], **values)} if path else values)


class Salt(Strict):
    """The file config/salt.yaml: the end of the names of the clients' random streams (docs/security.md)."""

    salt: Annotated[str, Field(pattern="^[0-9a-f]{32,}$")]
    # Whether clients hold samples of their own behind each defence.
    apart: bool = Field(False, exclude_if=lambda value: not value)


@dataclass(frozen=True)
class Sized:
    config: Path
    scale: Scale
    file: str
    salt: Salt
    seed: int = 0  # what all seeds are raised by
    sizes: Sizes = field(default_factory=Sizes)  # what the scale's budget pays for
    only: frozenset[str] = frozenset()  # the experiments that run; empty if all run
    # A cache, because many cells name the same few entries.
    _entries: dict[tuple[object, ...], Spec] = field(default_factory=dict, compare=False)

    @cached_property
    def name(self) -> str:
        return Path(self.file).stem

    def entry(self, kind: str, place: str, name: str, where: str, spec: str) -> Spec:
        """Return an entry with caps and budget applied. Callers share the mappings in it, and change none."""
        # Only a cap may depend on the place.
        caps = (each for each in self.scale.caps.get(kind, ()) if fnmatch.fnmatch(f"{place}/{name}", each))
        key = kind, name, self.sizes.values.get(spec), *caps
        if key not in self._entries:
            self._entries[key] = self._made(kind, place, name, where, spec)
        return dict(self._entries[key])

    def _made(self, kind: str, place: str, name: str, where: str, spec: str) -> Spec:
        whole = find(self.config, kind, name, where).model_dump(mode="json")
        value = capped(kind, place, name, whole, self.scale, self.file)
        changed = value != whole or spec in self.sizes.values
        if spec in self.sizes.values:
            *path, last = SIZED[kind].split(".")
            value = with_values(value, *path, **{last: self.sizes.values[spec]})
        if training := value.get("training"):
            last = training["epochs"]
            training["checkpoints"] = sorted({*(min(c, last) for c in training["checkpoints"]), last})
        if changed:
            validate(kind, "", f"{self.file}: caps.{kind}: raise the cap of '{name}'", value)
        return {key: part for key, part in value.items() if key not in FOR_PEOPLE}

    def salted(self, cell: Cell) -> Spec:
        """Return the salt of a cell's capture, and whether its clients hold samples of their own."""
        place = cell.capture.rpartition("/")[0]
        control = cell.defence != "none" and any(fnmatch.fnmatch(place, each) for each in self.scale.apart)
        return {"salt": self.salt.salt} | ({"apart": True} if self.salt.apart or control else {})

    def left_out(self, name: str) -> str:
        """Return why the scale leaves out an experiment, or <experiment>/<stem> of a cell or study, or ""."""
        experiment, _, job = name.partition("/")
        if self.only and experiment not in self.only:
            return "another experiment was asked for by --config only"
        own = find(self.config, "experiments", experiment, "").left_out.get(self.name, {}) if job else {}
        told = [why for glob, why in own.items() if fnmatch.fnmatchcase(job, glob)]
        told += [why for glob, why in self.scale.left_out.items() if fnmatch.fnmatchcase(name, glob)]
        return next(iter(told), self.sizes.left_out.get(name, ""))


def _parts(kind: str, pattern: str) -> list[tuple[str, str]]:
    """Return the kind of entry and the glob of each part of a pattern of caps."""
    # A star may stand for several parts; then only the last part's kind is known.
    above = ["datasets", "victims", "federations", "defences"] if kind == "attacks" else ["datasets"]
    kinds, globs = [*above, kind], pattern.split("/")
    named = zip(kinds, globs, strict=True) if len(globs) == len(kinds) else [(kind, globs[-1])]
    return [(of, glob) for of, glob in named if glob != "*"]


def sized(config: Path, name: str) -> Sized:
    file = f"{config}/scales/{name}.yaml"
    scale = find(config, "scales", name, "--scale")
    # Entries that no experiment names are checked too. A catalogue without them may lack the folder.
    for kind in ("victims", "generators", "trainings"):
        if (config / kind).is_dir():
            load_kind(config, kind)
    for kind, caps in scale.caps.items():
        if kind not in SIZED:
            raise UserError(f"{file}: caps.{kind}: no such kind ({suggest(kind, SIZED)})")
        for pattern, (of, part) in ((each, found) for each in caps for found in _parts(kind, each)):
            if not fnmatch.filter(load_kind(config, of), part):
                raise UserError(f"{file}: caps.{kind}: '{pattern}' matches no {of[:-1]} (drop or mend it)")
    salt = config / "salt.yaml"
    return Sized(config, scale, file, validated(Salt, read_yaml(salt), f"{salt}: ", "docs/security.md"))


def run_name(scale: str, seed: int | None) -> str:
    return scale if seed is None else f"{scale}-seed{seed}"
