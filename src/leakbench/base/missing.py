"""Absent inputs: the outputs that need one become absent too, with the reason, and all other jobs go on."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from leakbench.base.artefacts import open_tensors, read_facts, to_json, write_table, write_tensors, write_text
from leakbench.base.errors import Unfit
from leakbench.base.progress import log
from leakbench.base.whole import whole


def absent(paths: Iterable[Path]) -> str | None:
    """Return the reason of the first of the files `paths` that is absent, or None if all are there."""
    for path in paths:
        reason = read_facts(path).get("absent")
        whole(path)
        if reason:
            return str(reason)
    return None


def lacking(path: Path, *splits: str) -> str | None:
    """Return why the data set in the file `path` lacks one of the `splits`, or None if it has all of them."""
    arrays, _ = open_tensors(path)
    there = sorted(name.partition("/")[0] for name in arrays if name.endswith("/images"))
    for split in splits:
        if split not in there:
            own = " and ".join(there) or "none"
            return (
                f"the copy of {path.stem} that is here has no images of the split {split} "
                f"(its splits: {own}; put a copy with them into a directory of LEAKBENCH_DATA)"
            )
    return None


def pass_on(reason: str, outputs: Iterable[Path]) -> None:
    """Write each output as absent for `reason`, in the format of its suffix."""
    for path in outputs:
        if path.suffix == ".safetensors":
            write_tensors(path, {}, {"absent": reason})
        elif path.suffix == ".parquet":
            write_table(path, pd.DataFrame(), {"absent": reason})
        else:
            write_text(path, to_json({"absent": reason}) + "\n")


@contextmanager
def unless_unfit(verb: str, outputs: Iterable[Path]) -> Iterator[None]:
    """Write the outputs as absent, and log why under the verb's name, if the block raises Unfit."""
    try:
        yield
    except Unfit as unfit:
        log(f"leakbench {verb}: {unfit}")
        pass_on(str(unfit), outputs)
