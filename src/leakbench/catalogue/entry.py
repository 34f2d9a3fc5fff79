"""One catalogue entry as a scale has it: its values, with the scale's caps."""

import fnmatch
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from leakbench.catalogue.cell import Spec
from leakbench.catalogue.load import find, load_kind
from leakbench.catalogue.options import check_catalogue
from leakbench.catalogue.schema import KINDS, Scale
from leakbench.errors import UserError
from leakbench.yamls import Strict, read_yaml, suggest, validated

# Keys that change no result.
FOR_PEOPLE = {"summary", "title"}
CAPPED = ("victims", "generators", "federations", "attacks", "trainings")


# The key of each kind of entry that a budget sets.
SIZED = {
    "victims": "training.epochs",
    "generators": "training.epochs",
    "federations": "rounds",
    "attacks": "parameters.iterations",
    "trainings": "rounds",
}


@dataclass
class Sizes:
    """What a budget gives: the name of a spec → its size (SIZED), and <experiment>/<stem> → why it is left
    out."""

    values: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def capped(kind: str, place: str, name: str, value: Spec, scale: Scale, where: str) -> Spec:
    """Return `value` with the scale's caps on `kind` applied: the smaller of value and cap, the cap where
    there is none.

    A pattern matches the name, or <place>/<name> if it holds a slash. `place`: the data set; of an attack all
    that it runs on, <data set>/<victim>/<federation>/<defence>.
    """
    out = dict(value)
    for pattern, caps in scale.caps.get(kind, {}).items():
        if not fnmatch.fnmatchcase(f"{place}/{name}" if "/" in pattern else name, pattern):
            continue
        for path, cap in caps.items():
            *parents, last = path.split(".")
            inside = out
            for parent in parents:
                if not isinstance(inside.get(parent), dict):
                    raise UserError(
                        f"{where}: caps.{kind}.{pattern}: '{path}' is no key of {kind[:-1]} '{name}' "
                        f"({suggest(parent, inside)})"
                    )
                inside[parent] = dict(inside[parent])
                inside = inside[parent]
            if last in inside and inside[last] is None:
                inside[last] = int(cap)
            if isinstance(inside.get(last), bool) or not isinstance(inside.get(last), int | float):
                numbers = [key for key, number in inside.items() if type(number) in (int, float)]
                raise UserError(
                    f"{where}: caps.{kind}.{pattern}: '{path}' is no number of {kind[:-1]} '{name}' "
                    f"({suggest(last, numbers)})"
                )
            inside[last] = min(inside[last], type(inside[last])(cap))
    return out


class Salt(Strict):
    """config/salt.yaml: what the names of the clients' streams of chance end with (docs/security.md)."""

    salt: Annotated[str, Field(pattern="^[0-9a-f]{32,}$")]


@dataclass(frozen=True)
class Sized:
    """The catalogue as a scale has it.

    file: the scale's own, for messages. salt: of the clients' chance. sizes: what its budget pays for. only:
    the experiments that run, if not all.
    """

    config: Path
    scale: Scale
    file: str
    salt: str
    sizes: Sizes = field(default_factory=Sizes)
    only: frozenset[str] = frozenset()
    # Many cells name the same few entries.
    _entries: dict[tuple[str, str, str, int | None], Spec] = field(default_factory=dict, compare=False)
    _left_out: dict[str, list[tuple[str, str]]] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """Return the name of the scale."""
        return Path(self.file).stem

    def whole(self, kind: str, name: str, where: str) -> Any:
        """Return an entry without any cap. Raises UserError where it is missing."""
        return find(self.config, kind, name, where)

    def entry(self, kind: str, place: str, name: str, where: str, spec: str) -> Spec:
        """Return entry `name` of `kind` for a spec: capped, and as long as the budget pays for.

        What lies within it belongs to all who ask: replace it, and change it nowhere. Raises UserError where
        the entry is missing, or a cap does not fit it.
        """
        # A cap may depend on the place.
        key = kind, place if self.scale.caps.get(kind) else "", name, self.sizes.values.get(spec)
        if key not in self._entries:
            self._entries[key] = self._made(kind, place, name, where, spec)
        return dict(self._entries[key])

    def _made(self, kind: str, place: str, name: str, where: str, spec: str) -> Spec:
        whole = self.whole(kind, name, where).model_dump(mode="json")
        value = capped(kind, place, name, whole, self.scale, self.file)
        if spec in self.sizes.values:
            *parents, last = SIZED[kind].split(".")
            inside = value
            for parent in parents:
                inside = inside[parent]
            inside[last] = self.sizes.values[spec]
        training = value.get("training")
        if training:
            last = training["epochs"]
            training["checkpoints"] = sorted({*(min(c, last) for c in training["checkpoints"]), last})
        try:
            KINDS[kind].model_validate(value)
        except ValidationError as problem:
            error = problem.errors()[0]
            key = ".".join(map(str, error["loc"]))
            raise UserError(
                f"{self.file}: caps.{kind}: {key} of '{name}': {error['msg']}, got {error['input']!r} (raise "
                "the cap)"
            ) from problem
        return {key: part for key, part in value.items() if key not in FOR_PEOPLE}

    def left_out(self, name: str) -> str:
        """Return why the scale leaves out an experiment, or a cell by <experiment>/<stem>; empty if it does
        not."""
        experiment = name.partition("/")[0]
        if self.only and experiment not in self.only:
            return "another experiment was asked for by --config only"
        if experiment not in self._left_out:
            # Few patterns are about one experiment, and an experiment has hundreds of cells.
            self._left_out[experiment] = [
                (glob, why)
                for glob, why in self.scale.left_out.items()
                if fnmatch.fnmatchcase(experiment, glob.partition("/")[0])
            ]
        dear = self.sizes.left_out.get(name, "")
        globs = self._left_out[experiment]
        return next((why for glob, why in globs if fnmatch.fnmatchcase(name, glob)), dear)


def sized(config: Path, name: str) -> Sized:
    """Return the catalogue at a scale. Raises UserError where the scale names what there is not, or an
    optimiser is given what torch's does not take."""
    file = f"{config}/scales/{name}.yaml"
    scale = find(config, "scales", name, "--scale")
    check_catalogue(config)
    for kind, globs in scale.caps.items():
        if kind not in CAPPED:
            raise UserError(f"{file}: caps.{kind}: no such kind ({suggest(kind, CAPPED)})")
        for pattern in globs:
            if not fnmatch.filter(load_kind(config, kind), pattern.rpartition("/")[2]):
                raise UserError(f"{file}: caps.{kind}: '{pattern}' matches no {kind[:-1]} (drop or mend it)")
    experiments = load_kind(config, "experiments")
    for name in scale.budget.first if scale.budget else ():
        if name not in experiments:
            raise UserError(f"{file}: budget.first: no experiment '{name}' ({suggest(name, experiments)})")
    for pattern, why in scale.left_out.items():
        if not why.strip():
            raise UserError(f"{file}: left_out: '{pattern}' has no reason (say why, in words for tables)")
        if not fnmatch.filter(experiments, pattern.partition("/")[0]):
            raise UserError(f"{file}: left_out: '{pattern}' matches no experiment (drop or mend it)")
    salt = config / "salt.yaml"
    drawn = validated(Salt, read_yaml(salt), f"{salt}: ", "docs/security.md")
    return Sized(config, scale, file, drawn.salt)
