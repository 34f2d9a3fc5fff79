"""The check of a verb's arguments before it works for an hour: the paths that it writes and reads."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakbench.base.errors import Altered, UserError

# Verb → the arguments that name the files it writes.
_WRITTEN = {
    "fetch": ("out", "digest"), "train": ("out", "record"), "attack": ("out", "record"),
    "capture": ("out", "oracle", "truth", "record"), "score": ("out", "record"),
    "table": ("out", "exhibit", "trials"), "figure": ("out", "executed"), "scorecard": ("out", "seeds"),
    "verify": ("out",), "report": ("out",), "compare": ("out",),
}  # fmt: skip
# Verb → the forms of its spec, each given by keys that the spec must hold.
_SPECS = {
    "fetch": (("name", "sources"),),
    "train": (
        ("victim.training", "dataset", "seed"),
        ("generator", "dataset", "seed"),
        ("study", "training", "dataset", "seed"),
    ),
    "capture": (("federation", "defence", "victim", "dataset", "seed", "salt"),),
    "score": (("cell", "attacks", "judges"),),
    "table": (("experiment", "scale", "shares", "cells_left_out"),),
}
_DATA, _VICTIM = ("dataset", "data set"), ("checkpoints", "victim")
_TRUTH, _GUESSES = ("split", "truth of a capture"), ("target", "attack's guesses")
# Verb → argument of a tensor file → the fact that only files of its kind have, and the name of the kind.
_READ = {
    "train": {"data": _DATA, "further": _DATA, "victim": _VICTIM},
    "capture": {"data": _DATA, "victim": _VICTIM},
    "score": {
        "data": _DATA, "backbones": _DATA, "victim": _VICTIM, "judges": _VICTIM, "truth": _TRUTH,
        "guesses": _GUESSES,
    },
    "table": {"data": _DATA, "victims": _VICTIM, "truths": _TRUTH, "guesses": _GUESSES},
}  # fmt: skip
# The files that pictures of cells are taken from, in the order of `pictured`.
_PICTURED = ("guesses", "truths", "victims", "data")
# A file has a longer, temporary name until it is written completely, and file systems allow 255 bytes.
_LONGEST = 220


def check(verb: str, values: Mapping[str, Any]) -> None:
    """Raise UserError if a verb could not write a file, or was given a file of another kind.

    values: the verb's arguments by name.
    """
    for name in _WRITTEN.get(verb, ()):
        if values[name] is not None:
            _check_place(values[name], name)
    if verb == "attack":
        _check_attack(values["spec"])
    # A capture of a Flower app reads none of these files, and its spec has another form.
    if values.get("from_flower"):
        return
    if verb in _SPECS:
        _check_spec(verb, values)
    for name, (fact, kind) in _READ.get(verb, {}).items():
        for path in _listed(values[name]):
            _check_kind(path, name, fact, kind)


def _listed(value: Path | list[Path] | None) -> list[Path]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _check_place(path: Path, name: str) -> None:
    """Raise UserError if a file cannot be written to `path`, or would replace a device, a link or such."""
    mend = f"give --{name} the path of a file"
    if len(os.fsencode(path.name)) > _LONGEST:
        raise UserError(f"{path}: its name has more than {_LONGEST} bytes ({mend})")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise UserError(f"{path}: not a regular file, and would be replaced ({mend})")
    # Folders that are missing below an existing one are made later.
    above = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
    if not above.is_dir():
        raise UserError(f"{path}: {above} is no folder ({mend})")


def _check_spec(verb: str, values: Mapping[str, Any]) -> None:
    from leakbench.base.provenance import read_spec

    path = values["spec"]
    spec = read_spec(path)
    missing = [[key for key in form if not _holds(spec, *key.split("."))] for form in _SPECS[verb]]
    if all(missing):
        # The spec is taken for the form of which it lacks the fewest keys, and of several for the longest.
        least = min(zip(missing, _SPECS[verb], strict=True), key=lambda form: (len(form[0]), -len(form[1])))
        raise UserError(
            f"{path}: {least[0][0]}: is missing, so it is no spec of {verb} (give --spec one of those that "
            "`python -m leakbench plan` writes)"
        )
    if verb == "fetch":
        return
    from leakbench.catalogue.spec import check_spec

    check_spec(verb, spec, str(path))
    for name, key, count in _counts(verb, spec, values):
        given = len(_listed(values[name]))
        if given != count:
            option = name.replace("_", "-")
            raise UserError(
                f"{path}: {key}: needs {count} of --{option}, and {given} are there (give one for each)"
            )
    generator = spec.get("generator", {})
    if generator.get("reads") == "features" and not generator["weights"] and values["victim"] is None:
        raise UserError(f"{path}: generator.reads: is features, and --victim is missing (give the victim)")


def _counts(verb: str, spec: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (argument, key, number) for each argument that lists files: the key of the spec gives the number.

    The spec must have passed `check_spec`.
    """
    from leakbench.catalogue.cell import capture_of, pictured

    if verb == "score":
        for name, key in (("guesses", "attacks"), ("attack_records", "attacks"), ("judges", "judges")):
            if values[name] is not None:
                yield name, key, len(spec[key])
    if verb == "table" and "studies" in spec:
        yield from ((name, "studies", len(spec["studies"])) for name in ("scores", "costs"))
    elif verb == "table":
        yield "scores", "cells", len(set(map(capture_of, spec["cells"])))
        shown = [pictured(cell).values() for cell in spec["cells"] if spec["experiment"]["exhibit"]]
        # Many cells share a file, and a shared file is given once.
        for name, stems in zip(_PICTURED, zip(*shown, strict=True), strict=False):
            yield name, "cells", len(set(stems))


def _check_attack(path: Path) -> None:
    from leakbench.base.provenance import read_spec
    from leakbench.catalogue.spec import check_spec

    check_spec("attack", read_spec(path), str(path))


def _holds(value: Any, key: str, *more: str) -> bool:
    return isinstance(value, dict) and key in value and (not more or _holds(value[key], *more))


def _check_kind(path: Path, name: str, fact: str, kind: str) -> None:
    from leakbench.base.artefacts import read_facts

    told = read_facts(path)
    # A data set that a user made may hold no facts.
    own = not told and (fact, kind) == _DATA
    if not own and not {fact, "absent"} & told.keys():
        raise UserError(f"{path}: is no {kind} (give --{name} the file of one)")


def damaged(path: Path) -> bool:
    """Say whether a file fails the check that belongs to its suffix.

    A suffix without a check gives False. A sound file that was named in place of another is not damaged.
    """
    from leakbench.base.artefacts import read_csv, read_facts, read_json, read_table
    from leakbench.base.whole import whole

    try:
        if path.suffix == ".safetensors":
            read_facts(path)
            whole(path)
        elif path.suffix == ".parquet":
            read_table(path)
        elif path.suffix == ".json":
            read_json(path, "a file", "")
        elif path.suffix == ".csv":
            read_csv(path)
    except Altered:
        return True
    except (UserError, OSError):
        return False
    return False
