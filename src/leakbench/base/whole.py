"""Files that are either whole or not there.

They are written beside their place and renamed into it, with a digest of their own bytes. Whenever they are
read whole, their bytes are held to the digest.
"""

import fcntl
import glob
import hashlib
import itertools
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from leakbench.base.errors import Altered, raise_if_unwritable, raise_unless_file
from leakbench.base.processes.process import folder_of_the_run, owner_of_the_run

# The key in a file's header behind which its own digest stands, and what stands there before the digest is
# known. The digest is the sha256 of the file's bytes with these zeros in its place.
SEAL, UNSEALED = "leakbench-sha256", "0" * 64
_SEALED = re.compile(SEAL.encode() + rb'(?:": "|\x18@)(.{64})', re.DOTALL)
# The bytes at the start of a tensor file that hold its digest. Other files are read at once.
_START = 256
# The bytes of one write or read. Megabytes at once took five times as long (Linux 6.18, ext4).
AT_ONCE = 1 << 19


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it into place on success, remove it on failure."""
    # Temporary files that a killed writer of the same file left behind are removed too; a living writer holds
    # a lock on its own. Raises UserError if the disk is full or the folder may not be written.
    path = Path(path)
    temporary, held = None, -1
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            _sweep(stale)
        part = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
        held = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        temporary = part
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary
        os.replace(temporary, path)
    except OSError as problem:
        raise_if_unwritable(problem, path)
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if held >= 0:
            os.close(held)


def _sweep(part: Path) -> None:
    """Remove the file that a writer left behind, unless the writer still holds its lock."""
    with suppress(OSError), part.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        part.unlink()


@contextmanager
def sealing(path: Path) -> Iterator[Path]:
    """Yield a temporary path as `replacing` does, and put the file's digest into its place afterwards."""
    with replacing(path) as temporary:
        yield temporary
        place, _, digest = _digests(temporary, path.suffix)
        if place >= 0:
            with temporary.open("r+b") as file:
                file.seek(place)
                file.write(digest.encode())
                file.flush()
                os.fsync(file.fileno())
    _remember(path, digest)


def beside(path: Path) -> Path:
    """Return the file that holds the digest of a file that has no place for one, such as a CSV or a PNG."""
    return path.with_name(f".{path.name}.sha256")


@contextmanager
def listing(path: Path) -> Iterator[Path]:
    """Yield a temporary path as `replacing` does, and write the file's digest beside its place afterwards."""
    with replacing(path) as temporary:
        yield temporary
        digest = file_digest(temporary)
        # A writer that is killed in between leaves a file without a digest, and no wrong digest.
        beside(path).unlink(missing_ok=True)
    with replacing(beside(path)) as temporary:
        temporary.write_text(f"{digest}\n")
    _remember(path, digest)


def whole(path: Path) -> str:
    """Return the digest of a file's bytes. Raises Altered if the file's digest, in or beside it, differs."""
    # A file without a digest of ours, such as an observation from elsewhere, is taken as it is. Within a run
    # each file is read once for this check, unless it has changed since.
    raise_unless_file(path)
    note = _note(path)
    with suppress(OSError, ValueError):
        state, digest = note.read_text("utf-8").rsplit(" ", 1) if note else ("", "")
        if state == _state(path):
            return digest
    place, written, digest = _digests(path, path.suffix)
    if place < 0:
        with suppress(FileNotFoundError):
            written = beside(path).read_text("utf-8").strip()
    if written and digest != written:
        raise Altered(path, f"its bytes have sha256 {digest[:16]}…, not {written[:16]}… as written")
    _remember(path, digest)
    return digest


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hex digest of a file's bytes by `algorithm`, a name that hashlib knows."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def _digests(path: Path, suffix: str) -> tuple[int, str, str]:
    """Return the place of a file's own digest (-1 if it has none), that digest, and the one of its bytes."""
    with path.open("rb") as file:
        start = file.read(_START if suffix == ".safetensors" else -1)
        mark = _SEALED.search(start)
        if mark is None:
            return -1, "", file_digest(path)
        digest = hashlib.sha256(start[: mark.start(1)] + UNSEALED.encode() + start[mark.end(1) :])
        while part := file.read(AT_ONCE):
            digest.update(part)
    return mark.start(1), mark[1].decode(errors="replace"), digest.hexdigest()


def _state(path: Path) -> str:
    found = path.stat()
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _note(path: Path) -> Path | None:
    """Return the file in which a run remembers that it has read `path` whole; None outside a run."""
    owner = owner_of_the_run()
    with suppress(OSError):
        if owner is not None:
            return folder_of_the_run(owner) / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    return None


def _remember(path: Path, digest: str) -> None:
    with suppress(OSError):
        if note := _note(path):
            note.write_text(f"{_state(path)} {digest}")


def set_aside(path: Path, root: Path) -> str:
    """Rename a file that rules make, so that the next run makes it again; return in words what was done."""
    homes = [(root / name).resolve() for name in ("data", "results", "scratch")]
    if not path.is_file() or not any(path.parent.resolve().is_relative_to(home) for home in homes):
        return ""
    names = (f"{path.name}.damaged{number or ''}" for number in itertools.count())
    free = next(name for name in names if not path.with_name(name).exists())
    path.rename(path.with_name(free))
    return f"set aside as {free}: run snakemake again"
