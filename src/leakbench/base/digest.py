"""Digests of what a job depends on, and files that are written only where they would change."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import to_json, write_text


def digest(spec: Mapping[str, Any]) -> str:
    """Return the sha256 of a spec, written as JSON in its one canonical form."""
    return hashlib.sha256(to_json(spec).encode()).hexdigest()


@cache
def file_digest(root: Path, name: str) -> str:
    """Return the sha256 of the bytes of a source file below `root`. Each file is read once."""
    return hashlib.sha256((root / name).read_bytes()).hexdigest()


def write_changed(path: Path, text: str) -> None:
    """Write a file unless it holds `text` already, apart from line breaks at the end."""
    if not path.is_file() or path.read_text("utf-8").rstrip("\n") != text.rstrip("\n"):
        write_text(path, text)
