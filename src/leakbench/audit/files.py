"""The files of an audit."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from leakbench.audit.page import page
from leakbench.audit.sarif import sarif
from leakbench.base.artefacts import write_bytes
from leakbench.base.errors import UserError

NAMES = ("audit.json", "audit.sarif", "report.html")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Raise UserError where the system refuses to write to `folder`."""
    try:
        yield
    except (OSError, ValueError) as problem:
        why = (getattr(problem, "strerror", None) or str(problem)).lower()
        raise UserError(f"{folder}: cannot hold the report: {why} (name another folder)") from problem


def probe(folder: Path) -> None:
    """Raise UserError if the files of an audit could not be written to `folder`.

    Otherwise the audit would find out when its budget is spent. The check leaves nothing in the folder.
    """
    missing: list[Path] = []
    try:
        with _writing(folder):
            missing += [each for each in (folder, *folder.parents) if not each.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder):
                pass
            for path in map(folder.joinpath, NAMES):
                if path.is_dir():
                    raise UserError(f"{path}: is a folder, in the place of a report's file (remove it)")
    finally:
        for each in missing:
            with suppress(OSError):
                each.rmdir()


def write(folder: Path, audit: dict[str, Any], pictures: list[dict[str, Any]]) -> Path:
    """Write report.html, audit.json and audit.sarif to `folder`, and return the report's path.

    folder: where the files go.
    audit: `Audit.to_dict()`.
    pictures: `Audit.pictures`, for the report alone.

    Raises UserError if nothing can be written to the folder.
    """
    texts = (
        json.dumps(audit, indent=1) + "\n",
        json.dumps(sarif(audit), indent=1) + "\n",
        page(audit, pictures),
    )
    with _writing(folder):
        for name, text in zip(NAMES, texts, strict=True):
            # A file name of the user may hold bytes that are no text.
            write_bytes(folder / name, text.encode(errors="backslashreplace"))
    return folder / NAMES[-1]
