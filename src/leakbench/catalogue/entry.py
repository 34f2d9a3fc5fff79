"""One catalogue entry as a scale has it: its values, with the scale's caps."""

import fnmatch
from pathlib import Path

from pydantic import ValidationError

from leakbench.catalogue.cell import Spec
from leakbench.catalogue.load import find
from leakbench.catalogue.schema import KINDS, Scale
from leakbench.errors import UserError
from leakbench.yamls import suggest

CAPPED = ("victims", "generators", "federations", "attacks", "trainings")


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


def resolved(
    config: Path, kind: str, place: str, name: str, where: str, scale: Scale, scale_file: str
) -> Spec:
    """Return entry `name` of `kind`, capped. Raises UserError where it is missing, or a cap does not fit
    it."""
    value = capped(
        kind, place, name, find(config, kind, name, where).model_dump(mode="json"), scale, scale_file
    )
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
            f"{scale_file}: caps.{kind}: {key} of '{name}': {error['msg']}, got {error['input']!r} (raise "
            "the cap)"
        ) from problem
    value.pop("summary", None)
    return value
