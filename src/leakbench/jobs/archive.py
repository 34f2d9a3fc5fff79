"""archive: pack the records, the citation and a run's report into one file, as a DOI service takes it."""

import hashlib
import zipfile
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.base.whole import replacing

# The member that names every other with its digest, in the form of sha256sum.
SUMS = "SHA256SUMS"
RECORDS = "reference/"
# Files of the checkout, and of the results of a run, beside the records. Those of a run may be missing.
ABOUT = ("CITATION.cff", "LICENSE", "README.md", "codecheck.yml", "reference/README.md")
OF_RUN = ("report.html", "scorecard.csv", "scorecard.json", "verified.csv")
# The date of every member, the earliest that the format knows: the same files make the same bytes.
DATE = (1980, 1, 1, 0, 0, 0)


def archive(root: Path, out: Path, scale: str = "quick") -> None:
    """Write a zip of every record, with what cites and checks them, and the report of a finished run.

    The same files always make the same bytes. `leakbench fetch-records` reads the archive.

    root: the checkout.
    out: the archive.
    scale: the scale whose report goes along, if it has run.

    Raises UserError if a file of the checkout is missing.
    """
    for name in ABOUT:
        if not (root / name).is_file():
            raise UserError(f"{root / name}: missing (restore it with `git checkout`)")
    records = (
        path for path in (root / RECORDS).rglob("*") if path.is_file() and not path.name.startswith(".")
    )
    of_run = (root / "results" / scale / name for name in OF_RUN)
    files = {*(root / name for name in ABOUT), *records, *(path for path in of_run if path.is_file())}
    named = {path.relative_to(root).as_posix(): path for path in sorted(files)}
    sums = ""
    with replacing(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in named.items():
            data = path.read_bytes()
            sums += f"{hashlib.sha256(data).hexdigest()}  {name}\n"
            packed.writestr(zipfile.ZipInfo(name, DATE), data, zipfile.ZIP_DEFLATED)
        packed.writestr(zipfile.ZipInfo(SUMS, DATE), sums)
    print(f"{out}: {len(named)} files")
