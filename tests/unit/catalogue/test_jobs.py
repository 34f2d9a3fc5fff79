"""What is spared Snakemake: a checksum is read once for as long as its file stays as it was."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from leakbench.catalogue.jobs import calm


class Workflow:
    scheduler = None


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that were read for a checksum, in order."""
    from snakemake import io

    done: list[str] = []

    async def checksum(file: Any, threshold: int, force: bool = False) -> str | None:
        done.append(str(file))
        size = Path(file).stat().st_size
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if force or size <= threshold else None

    monkeypatch.setattr(io._IOFile, "checksum", checksum)
    calm(Workflow())
    return done


def ask(path: Path, threshold: int, **options: Any) -> str | None:
    from snakemake import io

    return asyncio.run(io._IOFile.checksum(str(path), threshold, **options))


def test_a_file_is_read_once_until_it_changes(reads: list[str], tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("one")
    first = ask(path, 100)
    assert ask(path, 100) == first
    assert reads == [str(path)]
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert ask(path, 100) != first
    assert len(reads) == 2


def test_what_was_asked_otherwise_is_answered_anew(reads: list[str], tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("large")
    assert ask(path, 1) is None
    assert ask(path, 100) is not None
    assert ask(path, 1, force=True) is not None
    assert ask(path, 1) is None
    assert len(reads) == 3


def test_a_file_that_is_gone_is_asked_for_each_time(reads: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            ask(tmp_path / "gone", 100)
    assert len(reads) == 2
