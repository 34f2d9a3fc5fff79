"""Recorded results: tables of earlier runs, kept in git below reference/<scale>/ with what made them.

Experiments that take hours are measured once and recorded. Each experiment has these files there: its table
as the workflow wrote it (.csv), the single trials behind the table (.parquet), its record (.json), small
pictures of its strongest attacks (.safetensors) where it has any, and what its figure draws in addition to
the table (.exhibit.safetensors) where that is small. The record names device, commit, date, versions,
the digests of specs and files, and how far the trainings ran.

The same experiment with every seed raised by N is recorded below reference/<scale>-seed<N>/. Such a table
says what the seed changes; it decides no verdict.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leakbench.base.artefacts import Facts, read_csv, read_json, read_table
from leakbench.base.errors import UserError
from leakbench.base.whole import file_digest
from leakbench.base.yamls import validated

if TYPE_CHECKING:
    import pandas as pd

# The suffixes of the files beside a record, which names the digest of each.
EXHIBIT = ".exhibit.safetensors"
KEPT = (".csv", ".parquet", ".safetensors", EXHIBIT)
_Suffix = Annotated[str, Field(pattern=f"^({'|'.join(map(re.escape, KEPT))})$")]
# Which round serves as the baseline "other update": one drawn from all, or in older records the next one.
DRAWN, NEXT = "drawn", "next"
# The fewest trials that may show that two numerics give the same.
FEWEST = 10
Numerics = dict[str, Annotated[int, Field(gt=1)]]
Files = dict[_Suffix, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]
# Columns of a table that are read as text even if a column is empty in every line or has only digits.
TEXT = {"seeds": str, "baseline": str, "key": str}
# The columns that every table has, those that are numbers, and those of them that count something.
NEEDED = ("metric", "baseline", "mean", "ci_low", "ci_high", "n", "seeds")
COUNTS = ("n", "iterations", "client", "local_samples", "checkpoint", "round", "rounds", "images")
LARGEST_COUNT = 10**12
NUMBERS = ("mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "failure_rate", "threshold", *COUNTS)
# What a user can do: make a record, or mend one.
_AGAIN = "run `leakbench record`"
_MEND = "restore it with `git checkout`, or run `leakbench record` again"
_SEEDED = re.compile(r"(.+)-seed([0-9]+)")


class Kind(BaseModel):
    """What a file of reference/ must hold; it may hold more keys."""

    model_config = ConfigDict(allow_inf_nan=False, strict=True)


class Difference(Kind):
    """A paired difference of trials, in the unit of its metric."""

    difference: float  # its mean, of other numerics minus the recorded ones
    low: float  # the lower end of its 95 % interval
    high: float
    n: Annotated[int, Field(ge=FEWEST)]
    bound: Annotated[float, Field(ge=0)]  # half the tolerance of the metric, within which the interval lies

    @model_validator(mode="after")
    def _within(self) -> "Difference":
        if not (-self.bound <= self.low <= self.high <= self.bound):
            raise ValueError(f"{self.low} to {self.high} does not lie within {self.bound} of 0")
        return self


class Equivalent(Kind):
    """What shows that other numerics than the recorded ones give the same table."""

    numerics: Numerics  # name → version above 1 of the other numerics
    sampled: str
    differences: Annotated[dict[str, Difference], Field(min_length=1)]  # attack and metric → difference


class Record(Kind):
    """The keys that a record must have, and their form."""

    device: str  # the device on which the table was made
    commit: str  # the commit from which the table was made
    date: str
    specs: str  # the digest of the specs from which the table follows
    versions: dict[str, str]
    absent: dict[str, str]  # cell → the reason why the cell is absent
    files: Files  # suffix → the digest of a file beside the record
    shares: dict[str, dict[str, float]] = {}  # cell → what was trained → the share of its full length
    # Cell → for each trial the share by which its loss fell in the last half.
    falls: dict[str, list[float]] = {}
    partners: Literal["drawn", "next"] = "next"  # which rounds are the baseline "other update"
    knows: dict[str, dict[str, str]] = {}  # cell → what the attack knew
    # Name → numerics version, where it is above 1, of the files from which the table follows.
    numerics: Numerics = {}
    equivalent: list[Equivalent] = []  # other numerics that give the same table, and what shows it
    # Where, when and at which commit the run was repeated for its pictures, if they were not kept at first.
    pictures: dict[str, str] = {}
    renewed: list[Facts] = []  # cells that were measured later, with commit, date and device


def run_of(folder: str) -> tuple[str, int | None]:
    """Return the scale and the seed that a folder below results/ or reference/ is named after."""
    found = _SEEDED.fullmatch(folder)
    return (found[1], int(found[2])) if found else (folder, None)


def recorded(folder: Path, experiment: str = "*") -> list[Path]:
    """Return, sorted, the table of every experiment that has a file in a folder below reference/."""
    found = (path for path in folder.glob(f"{experiment}.*") if not path.name.startswith("."))
    return sorted({table for path in found if (table := _table(path))})


def _table(path: Path) -> Path | None:
    """Return the table that a recorded file belongs to; None for another file."""
    name = path.name.partition(".")[0]
    return path.with_name(f"{name}.csv") if _suffix(path) in (".json", *KEPT) else None


def _suffix(path: Path) -> str:
    return "".join(path.suffixes)


def files(root: Path, experiment: str, seeded: bool = False) -> list[Path]:
    """Return every recorded file of an experiment below the checkout `root`, sorted."""
    folders = (path for path in (root / "reference").glob("*/") if path.is_dir())
    meant = (folder for folder in folders if (run_of(folder.name)[1] is not None) is seeded)
    tables = (table for folder in meant for table in recorded(folder, experiment))
    beside = [table.with_suffix(suffix) for table in tables for suffix in (".json", *KEPT)]
    return sorted(path for path in beside if path.is_file())


def read_record(table: Path) -> Facts:
    path = table.with_suffix(".json")
    value = read_json(path, f"{table.name}'s record", _AGAIN, _MEND)
    validated(Record, value, f"{path}: ", "reference/README.md")
    hold(table, value["files"], f"{path}: ", _MEND)
    return value


def hold(table: Path, digests: Mapping[str, str], where: str, mend: str) -> None:
    """Raise UserError unless a table and the files beside it are those of a record."""
    if ".csv" not in digests:
        raise UserError(f"{where}files: has no digest of {table.name} ({mend})")
    for beside in sorted(table.parent.glob(f"{table.stem}.*")):
        if _suffix(beside) not in (".json", *digests):
            raise UserError(f"{beside}: is not in the record beside it (remove the file, or {mend})")
    for suffix, digest in digests.items():
        kept = table.with_suffix(suffix)
        if not kept.is_file() or file_digest(kept) != digest:
            raise UserError(f"{kept}: is not the file that was recorded ({mend})")


def kept_digests(table: Path) -> dict[str, str]:
    kept = {suffix: table.with_suffix(suffix) for suffix in KEPT}
    return {suffix: file_digest(path) for suffix, path in kept.items() if path.is_file()}


@dataclass(frozen=True)
class Kept:
    """A recorded run of one experiment."""

    table: Path  # the CSV below reference/
    rows: "pd.DataFrame"
    record: Facts

    @property
    def scale(self) -> str:
        """The scale of the run; for raised seeds the folder's name, which `run_of` takes apart."""
        return self.table.parent.name

    @property
    def name(self) -> str:
        return self.table.stem

    def beside(self, suffix: str) -> Path | None:
        """Return the file beside the table with this suffix, or None if it was not recorded."""
        path = self.table.with_suffix(suffix)
        return path if path.is_file() else None

    def trials(self) -> "pd.DataFrame | None":
        """Return which trial of which line has which value, or None if this was not recorded."""
        path, needed = self.beside(".parquet"), ["line", "cluster", "trial", "value"]
        found = read_table(path, needed)[0] if path else None
        if found is not None and (lacking := {*needed} - {*found.columns}):
            raise UserError(f"{path}: lacks the column {min(lacking)} ({_MEND})")
        return found

    def said(self) -> str:
        """Return in words where, when and from what the run was recorded, and any later pictures."""
        # The plan reads this file without the libraries of metrics.
        from leakbench.metrics.baselines import OTHER_UPDATE

        made = self.record
        told = f"recorded on {made['device']}, {made['date']}, commit {made['commit']}"
        if OTHER_UPDATE in set(self.rows["baseline"]) and made.get("partners", NEXT) == NEXT:
            told += ", where the null of another update took the next one"
        if later := made.get("pictures"):
            told += f"; pictures of the same run repeated on {later['device']}, {later['date']}"
        return told


def tables(paths: Iterable[Path]) -> list[Kept]:
    """Return the recorded run of every table to which one of `paths` belongs, in the order of `paths`."""
    found = dict.fromkeys(table for path in paths if (table := _table(path)))
    made = {path: read_record(path) for path in found}
    return [Kept(path, _lines_of(path), record) for path, record in made.items()]


def _lines_of(table: Path) -> "pd.DataFrame":
    """Return the lines of a recorded table. Raises UserError for a column without its numbers."""
    import pandas as pd

    rows = read_csv(table, NEEDED, _MEND, dtype=TEXT)
    for name in rows.columns.intersection(NUMBERS) if len(rows) else ():
        given = rows[name].dropna()
        numbers = pd.to_numeric(given, errors="coerce")
        if name in COUNTS:
            numbers = numbers.where(numbers.abs() <= LARGEST_COUNT)
        if not numbers.notna().all() or (name == "n" and len(given) < len(rows)):
            wrong = given[numbers.isna()].map(repr).tolist() or ["an empty cell"]
            raise UserError(f"{table}: {name}: {wrong[0]} is no number of it ({_MEND})")
    if wrong := [each for each in rows["seeds"].dropna() if not re.fullmatch("[0-9]+( [0-9]+)*", each)]:
        raise UserError(f"{table}: seeds: {wrong[0]!r} are no seeds ({_MEND})")
    return rows.fillna({"baseline": ""})


def fuller(rows: "pd.DataFrame", found: Iterable[Kept], but: str, pictured: bool) -> Kept | None:
    """Return the recorded run with the most lines of attacks and studies, or None if `rows` has as many."""
    others = [kept for kept in found if kept.scale != but and (not pictured or _pictured(kept))]
    best = max(others, key=lambda kept: _lines(kept.rows), default=None)
    return best if best and _lines(best.rows) > _lines(rows) else None


def _lines(rows: "pd.DataFrame") -> int:
    return int((rows["baseline"] == "").sum()) if len(rows) else 0


def _pictured(kept: Kept) -> bool:
    return bool(kept.beside(EXHIBIT) or kept.beside(".safetensors"))
