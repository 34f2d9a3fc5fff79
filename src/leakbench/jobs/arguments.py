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
# The files that pictures of cells are taken from, in the order of `PICTURED`.
_PICTURED = ("guesses", "truths", "victims", "data")
# A file has a longer, temporary name until it is written completely, and file systems allow 255 bytes.
_LONGEST = 220


def check(verb: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verb's arguments with its spec as an object, if the spec is checked here."""
    # values: the verb's arguments by name.
    # Raises UserError if the verb could not write a file, or was given a file of another kind.
    for name in _WRITTEN.get(verb, ()):
        if values[name] is not None:
            _check_place(values[name], name)
    # A capture of a Flower app reads none of these files, and its spec has another form.
    if verb not in _CHECKED or values.get("from_flower"):
        return dict(values)
    from leakbench.base.artefacts import read_facts

    spec = _spec(verb, values)
    for name, (fact, kind) in _READ.items():
        for path in _listed(values.get(name)) if name not in _WRITTEN[verb] else ():
            told = read_facts(path)
            # A data set that a user made may hold no facts.
            if not {fact, "absent"} & told.keys() and (told or fact != "dataset"):
                raise UserError(f"{path}: is no {kind} (give --{name} the file of one)")
    return {**values, "spec": spec}


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


def _spec(verb: str, values: Mapping[str, Any]) -> Any:
    """Return a verb's spec, for `fetch` its path. Raises UserError if it needs other files than given."""
    from leakbench.base.provenance import read_spec
    from leakbench.catalogue.jobs import GeneratorSpec
    from leakbench.catalogue.spec import opened

    path = values["spec"]
    if verb == "fetch":
        value = read_spec(path)
        if missing := next((key for key in ("name", "sources") if key not in value), ""):
            raise UserError(f"{path}: {missing}: is missing (give --spec one that `leakbench plan` writes)")
        opened(verb, path)
        return path
    spec = opened(verb, path)
    for name, key, count in _counts(spec, values):
        given = len(_listed(values[name]))
        if given != count:
            option = name.replace("_", "-")
            raise UserError(
                f"{path}: {key}: needs {count} of --{option}, and {given} are there (give one for each)"
            )
    generator = spec.generator if isinstance(spec, GeneratorSpec) else None
    if generator and generator.reads == "features" and not generator.weights and values["victim"] is None:
        raise UserError(f"{path}: generator.reads: is features, and --victim is missing (give the victim)")
    return spec


def _counts(spec: Any, values: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield (argument, key of the spec, number) for each argument that lists one file for each of a key."""
    from leakbench.catalogue.cell import PICTURED
    from leakbench.catalogue.jobs import ScoreSpec, TableSpec

    if isinstance(spec, ScoreSpec):
        for name, key in (("guesses", "attacks"), ("attack_records", "attacks"), ("judges", "judges")):
            if values[name] is not None:
                yield name, key, len(getattr(spec, key))
    if not isinstance(spec, TableSpec):
        return
    if spec.studies is not None:
        yield from ((name, "studies", len(spec.studies)) for name in ("scores", "costs"))
        return
    yield "scores", "cells", len({cell.capture for cell in spec.parsed})
    # Many cells share a file, and a shared file is given once.
    if spec.cells and spec.experiment.exhibit:
        for name, kind in zip(_PICTURED, PICTURED, strict=True):
            yield name, "cells", len({cell.path(kind) for cell in spec.parsed})


def damaged(path: Path) -> bool:
    """Say whether a file fails the check of its suffix. A sound file of another kind does not."""
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
