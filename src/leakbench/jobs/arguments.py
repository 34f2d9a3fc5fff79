"""The check of a verb's arguments before it works for an hour: the paths that it writes and reads."""

import os
from collections.abc import Callable, Iterator, Mapping
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
# The verbs whose spec is checked here. Those that only draw and compare read what others have checked.
_CHECKED = ("fetch", "train", "capture", "attack", "score", "table")
# Argument of a tensor file → the fact that only files of its kind have, and the name of the kind.
_READ = {
    **dict.fromkeys(("data", "further", "backbones"), ("dataset", "data set")),
    **dict.fromkeys(("victim", "victims", "judges"), ("checkpoints", "victim")),
    **dict.fromkeys(("truth", "truths"), ("split", "truth of a capture")),
    "guesses": ("target", "attack's guesses"),
}
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
    # A capture of a Flower app reads none of these files, and its spec has another form.
    if verb not in _CHECKED or values.get("from_flower"):
        return
    from leakbench.base.artefacts import read_facts

    _check_spec(verb, values)
    for name, (fact, kind) in _READ.items():
        for path in _listed(values.get(name)) if name not in _WRITTEN[verb] else ():
            told = read_facts(path)
            # A data set that a user made may hold no facts.
            if not {fact, "absent"} & told.keys() and (told or fact != "dataset"):
                raise UserError(f"{path}: is no {kind} (give --{name} the file of one)")


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
    """Raise UserError for a mistake in a verb's spec, or if it needs other files than are given."""
    from leakbench.base.provenance import read_spec
    from leakbench.catalogue.spec import check_spec

    path = values["spec"]
    spec = read_spec(path)
    if verb == "fetch":
        if missing := next((key for key in ("name", "sources") if key not in spec), ""):
            raise UserError(f"{path}: {missing}: is missing (give --spec one that `leakbench plan` writes)")
        return
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


def damaged(path: Path) -> bool:
    """Say whether a file fails the check that belongs to its suffix.

    A suffix without a check gives False. A sound file that was named in place of another is not damaged.
    """
    from leakbench.base.artefacts import read_csv, read_facts, read_json, read_table
    from leakbench.base.whole import whole

    checks: dict[str, tuple[Callable[[Path], object], ...]] = {
        ".safetensors": (read_facts, whole), ".parquet": (read_table,), ".csv": (read_csv,),
        ".json": (lambda file: read_json(file, "a file", ""),),
    }  # fmt: skip
    try:
        for read in checks.get(path.suffix, (whole,)):
            read(path)
    except Altered:
        return True
    except (UserError, OSError):
        pass
    return False
