"""An archive of the records is read back, digests checked, and anything else is refused in one line."""

import zipfile
from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.jobs.archive import ABOUT, SUMS, archive
from leakbench.jobs.fetch_records import fetch_records

RECORD = "reference/standard/a.csv"


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Return an archive of a checkout with one record and a report."""
    for name in (*ABOUT, RECORD, "results/quick/report.html", "results/quick/tables/a.csv"):
        path = tmp_path / "from" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}")
    for turn in range(2):
        archive(tmp_path / "from", tmp_path / f"{turn}.zip")
    assert (tmp_path / "0.zip").read_bytes() == (tmp_path / "1.zip").read_bytes()
    return tmp_path / "0.zip"


def altered(path: Path, changes: dict[str, bytes | None]) -> Path:
    """Write an archive anew with other members; None leaves one out."""
    with zipfile.ZipFile(path) as file:
        held = {name: file.read(name) for name in file.namelist()} | changes
    with zipfile.ZipFile(path, "w") as file:
        for name, data in held.items():
            if data is not None:
                file.writestr(name, data)
    return path


def test_the_records_of_an_archive_are_written_once(packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as file:
        assert {*file.namelist()} == {*ABOUT, RECORD, "results/quick/report.html", SUMS}
    for said in (2, 0):
        before = sorted((tmp_path / "to").rglob("*"))
        fetch_records(tmp_path / "to", packed)
        there = {str(path.relative_to(tmp_path / "to")) for path in (tmp_path / "to").rglob("*.*")}
        assert there == {RECORD, "reference/README.md"}
        assert bool(before) is (said == 0)
    (tmp_path / "to" / RECORD).write_text("my own")
    with pytest.raises(UserError, match=r"a\.csv: differs from the record in .* \(move it away first\)"):
        fetch_records(tmp_path / "to", packed)


NO_ARCHIVES = {
    "other bytes": ({RECORD: b"text of b"}, f"{RECORD} has other bytes than its digest says"),
    "one more file": ({"reference/more.csv": b""}, "does not list what the archive holds"),
    "a file is missing": ({RECORD: None}, "does not list what the archive holds"),
    "no sums": ({SUMS: None}, "no archive of `leakbench archive`"),
    "a way out": ({SUMS: 64 * b"0" + b"  ../x\n"}, "does not list what the archive holds"),
}


@pytest.mark.parametrize("case", NO_ARCHIVES)
def test_an_archive_of_other_bytes_writes_nothing(case: str, packed: Path, tmp_path: Path) -> None:
    changes, says = NO_ARCHIVES[case]
    with pytest.raises(UserError, match=says):
        fetch_records(tmp_path / "to", altered(packed, changes))
    assert not (tmp_path / "to").exists()


def test_a_damaged_archive_is_refused(packed: Path, tmp_path: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:300])
    with pytest.raises(UserError, match="or a damaged one"):
        fetch_records(tmp_path / "to", packed)
    (tmp_path / "from/CITATION.cff").unlink()
    with pytest.raises(UserError, match=r"CITATION\.cff: missing"):
        archive(tmp_path / "from", packed)
