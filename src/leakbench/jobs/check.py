"""check: compare the files of a checkout with the digests that dvc.lock records of them."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from leakbench.base.errors import UserError, raise_unless_file
from leakbench.base.whole import file_digest
from leakbench.base.yamls import read_yaml, validated
from leakbench.jobs.arguments import damaged


# What of dvc.lock matters here: for each stage, its outputs with their paths below the checkout.
class _Out(BaseModel):
    path: Annotated[str, Field(pattern=r"^[\w-][\w .-]*(/[\w-][\w .-]*)*$")]
    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}(\.dir)?$")]


class _Stage(BaseModel):
    outs: Annotated[list[_Out], Field(min_length=1)]


class _Lock(BaseModel):
    stages: dict[str, _Stage]


def check(root: Path, deep: bool = False) -> None:
    """Compare the bytes of every file below `root` that dvc.lock records and that is here.

    DVC itself does not check the bytes of a remote, or those of a file that it has seen before. Prints a line
    for each file that differs. Raises UserError, which counts them.

    deep: also compare every data set and result with the digest that it carries or that lies beside it.
    """
    if deep:
        _check_digests(root)
    lock = root / "dvc.lock"
    recorded = validated(_Lock, read_yaml(lock), f"{lock}: ", "`git checkout dvc.lock`").stages.values()
    outs = {out.path: out.md5 for stage in recorded for out in stage.outs}
    here = {name: md5 for name, md5 in outs.items() if (root / name).exists()}
    wrong = sorted(line for name, md5 in here.items() for line in _differences(root, name, md5))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if wrong:
        raise UserError(
            f"{lock}: {len(wrong)} difference{'s' * (len(wrong) > 1)} from what it records (remove what was "
            "altered and pull again, or run `dvc repro`, which records what is here)"
        )
    print(f"{len(here)} of the {len(outs)} outputs of dvc.lock are here, each as recorded")


def _check_digests(root: Path) -> None:
    """Read every file below data/ and results/. Raises UserError, after a line for each that is wrong."""
    there = [
        path for top in ("data", "results") for path in sorted((root / top).rglob("*"))
        if path.is_symlink() or path.is_file()
        if not path.name.startswith(".") and ".damaged" not in path.name
    ]  # fmt: skip
    wrong = [path for path in there if path.is_symlink() or damaged(path)]
    for path in wrong:
        print(f"{path.relative_to(root)}: {'a link' if path.is_symlink() else 'other bytes than written'}")
    if wrong:
        raise UserError(
            f"{wrong[0]}: one of {len(wrong)} files that are not as written (remove them, run again)"
        )
    print(f"{len(there)} files of data and results are as written")


def _differences(root: Path, name: str, md5: str) -> Iterator[str]:
    """Yield a line for each file of an output (a folder's digest ends in `.dir`) that is not as recorded."""
    if not md5.endswith(".dir"):
        raise_unless_file(root / name, mend="run `dvc pull`")
        if file_digest(root / name, "md5") != md5:
            yield f"{name}: other bytes"
        return
    there = (path for path in (root / name).rglob("*") if path.is_file() and ".damaged" not in path.name)
    results = (path for path in there if path.suffix != ".part" and not path.match(".*.sha256"))
    found = {path.relative_to(root / name).as_posix(): file_digest(path, "md5") for path in results}
    listing = [{"md5": digest, "relpath": path} for path, digest in sorted(found.items())]
    if hashlib.md5(json.dumps(listing).encode()).hexdigest() == md5.removesuffix(".dir"):
        return
    kept = root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
    if not kept.is_file() or f"{file_digest(kept, 'md5')}.dir" != md5:
        yield f"{name}: not the recorded files (DVC's own list of them is missing or altered)"
        return
    wanted = {each["relpath"]: each["md5"] for each in json.loads(kept.read_text("utf-8"))}
    for path in wanted.keys() | found.keys():
        if path not in wanted or path not in found:
            yield f"{name}/{path}: {'not recorded' if path in found else 'missing'}"
        elif wanted[path] != found[path]:
            yield f"{name}/{path}: other bytes"
