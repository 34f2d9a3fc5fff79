"""fetch-records: put the records of an archive into a checkout, each held to its digest."""

import hashlib
import re
import zipfile
import zlib
from pathlib import Path

from leakbench.base.artefacts import write_bytes
from leakbench.base.errors import UserError, raise_unless_file
from leakbench.jobs.archive import RECORDS, SUMS

# A line of the sums: a digest, and a path without a folder that begins with a dot.
LINE = re.compile(r"([0-9a-f]{64})  (\w[\w.-]*(?:/\w[\w.-]*)*)")
# All records take a tenth of a gigabyte.
LARGEST = 1 << 31
AGAIN = "download it again"
# What Python raises while it reads a file that is no such archive.
BROKEN = zipfile.BadZipFile, zlib.error, KeyError, UnicodeDecodeError, NotImplementedError, EOFError


def fetch_records(root: Path, file: Path) -> None:
    """Write the records of an archive that `leakbench archive` made, those that are not here already.

    Nothing is written unless every file of the archive has its digest.

    root: the checkout.
    file: the archive.

    Raises UserError for a file that is no such archive or has other bytes, and where a record here differs.
    """
    raise_unless_file(file)
    found = _checked(file)
    for name, data in found.items():
        path = root / name
        if path.exists() and path.read_bytes() != data:
            raise UserError(f"{path}: differs from the record in {file} (move it away first)")
    new = {name: data for name, data in found.items() if not (root / name).exists()}
    for name, data in new.items():
        write_bytes(root / name, data)
    print(f"{file}: {len(new)} files written, {len(found) - len(new)} were here already")


def _checked(file: Path) -> dict[str, bytes]:
    """Return the bytes of every record of an archive by its path, after all files of it were checked."""
    try:
        with zipfile.ZipFile(file) as packed:
            if sum(member.file_size for member in packed.infolist()) > LARGEST:
                raise UserError(
                    f"{file}: unpacks to more than {LARGEST >> 30} GB, so it is no archive of records"
                )
            lines = packed.read(SUMS).decode().splitlines()
            listed = [LINE.fullmatch(line) for line in lines]
            sums = {each[2]: each[1] for each in listed if each}
            if len(sums) < len(lines) or {*packed.namelist()} != {SUMS, *sums}:
                raise UserError(f"{file}: {SUMS} does not list what the archive holds ({AGAIN})")
            data = {name: packed.read(name) for name in sums}
    except BROKEN as problem:
        raise UserError(f"{file}: no archive of `leakbench archive`, or a damaged one ({AGAIN})") from problem
    for name, digest in sums.items():
        if hashlib.sha256(data[name]).hexdigest() != digest:
            raise UserError(f"{file}: {name} has other bytes than its digest says ({AGAIN})")
    return {name: each for name, each in data.items() if name.startswith(RECORDS)}
