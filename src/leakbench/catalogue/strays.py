"""Results of another spec or other code than today's, which each start finds by their digests.

A clock that went back, a copy from another checkout or `snakemake --touch` hides such results from Snakemake.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from leakbench.base.artefacts import read_json, told, write_json, write_text
from leakbench.base.code import code_of
from leakbench.base.digest import digest

# Kind of spec → the verb that follows the spec, and its results. `*` stands for the spec's name.
_RESULTS = {
    "train": ("train", "victims/*.safetensors"),
    "generator": ("train", "generators/*.safetensors"),
    "study": ("train", "studies/*.parquet"),
    "capture": ("capture", "captures/*.safetensors", "oracle/*.safetensors", "truth/*.safetensors"),
    "attack": ("attack", "guesses/*.safetensors"),
    "score": ("score", "scores/*.parquet"),
    "table": ("table", "trials/*.parquet", "exhibits/*.safetensors"),
}
_ACCEPTED, _SHOWN = "accepted.json", 3
# The pages of a run.
PAGES = ("report.html", "scorecard.csv", "scorecard.json", "seeds.csv", "verified.csv", "verified.json")
Specs = Mapping[str, Mapping[str, Any]]


class _Stray(NamedTuple):
    """A result that differs from the plan.

    path: the path of the result, below the run's home.
    spec: the file of the result's spec.
    code: the digests of the result's code and of today's code if only the code differs; otherwise empty.
    """

    path: str
    spec: Path
    code: tuple[str, ...]


def _strays(home: Path, results: str, specs: Specs) -> Iterator[_Stray]:
    for name, spec in specs.items():
        kind, _, stem = name.partition("/")
        verb, *made = _RESULTS.get(kind, ("",))
        for path in (f"{results}/{each.replace('*', stem)}" for each in made):
            if not (home / path).is_file():
                continue
            of_spec, of_code = told(home / path)
            asked, code = home / results / "specs" / f"{name}.json", code_of(spec, f"leakbench.jobs.{verb}")
            # A file that says that something is absent follows no spec and no code.
            if of_spec not in ("", digest(dict(spec))):
                yield _Stray(path, asked, ())
            elif of_code not in ("", code):
                yield _Stray(path, asked, (of_code, code))


def dated(home: Path, results: str, now: float) -> tuple[int, list[str]]:
    """Date files that are dated after now to now, in their order, and find what a damaged file stood for.

    A clock that was set back leaves such dates, and Snakemake would take for newer what is older.

    home: the folder that results/ and data/ lie in.
    results: the folder of the run below it.
    now: the time, in seconds.

    Returns the number of files that were dated anew, and the paths below `home` of damaged files that were
    set aside and not made again.
    """
    later, lost = [], []
    for top in (home / results, home / "data"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                first, mark, _ = name.partition(".damaged")
                if mark and not path.with_name(first).exists():
                    lost.append(path.with_name(first).relative_to(home).as_posix())
                if (date := path.lstat().st_mtime) > now:
                    later.append((date, path))
    for turn, (_, path) in enumerate(sorted(later)):
        date = now - (len(later) - turn) / 1000
        os.utime(path, (date, date), follow_symlinks=False)
    return len(later), lost


def planned(results: str, specs: Specs, paths: Iterable[str]) -> list[str]:
    """Return those of `paths`, below the run's home, that the plan has a rule for."""
    more = {"table": ("tables/*.csv",), "figure": ("figures/*.png", "notebooks/*.ipynb")}
    made = {f"{results}/{name}" for name in PAGES}
    for name in specs:
        kind, _, stem = name.partition("/")
        for each in (*_RESULTS.get(kind, ("",))[1:], *more.get(kind, ()), f"records/{kind}/*.json"):
            made.add(f"{results}/{each.replace('*', stem)}")
        if kind == "fetch":
            made.add(f"data/{stem}.safetensors")
    return sorted(made & {*paths})


def accept(home: Path, results: str, specs: Specs) -> None:
    """Accept the results of other code than today's. A result of another spec is never accepted.

    For each, accepted.json beside the results holds the digests of its code and of today's.
    """
    found = {stray.path: stray.code for stray in _strays(home, results, specs) if stray.code}
    if found or (home / results / _ACCEPTED).exists():
        write_json(home / results / _ACCEPTED, found)


def renew(home: Path, results: str, specs: Specs) -> list[str]:
    """Make Snakemake repeat every result of another spec than planned, or of other code that is not accepted.

    The spec of such a result gets one more line break, because Snakemake remembers the bytes of inputs. The
    result is dated before its spec.

    Returns lines that say what is made again and what was accepted. A result that is older than its spec is
    not named, because Snakemake makes it again in any case.
    """
    record = home / results / _ACCEPTED
    accepted = read_json(record, "a list of accepted results", "delete it") if record.is_file() else {}
    strays = list(_strays(home, results, specs))
    again = [stray for stray in strays if not stray.code or accepted.get(stray.path) != list(stray.code)]
    # Results may share a spec, which changes its date below.
    dated = {stray: stray.spec.stat().st_mtime for stray in again}
    named = [stray.path for stray in again if (home / stray.path).stat().st_mtime >= dated[stray]]
    for stray in again:
        write_text(stray.spec, stray.spec.read_text() + "\n")
        os.utime(home / stray.path, (0, dated[stray] - 1))
    lines = []
    if named:
        shown = ", ".join(named[:_SHOWN]) + (", …" if len(named) > _SHOWN else "")
        lines.append(f"results of another spec or other code, to be made again: {len(named)} ({shown})")
    if count := len(strays) - len(again):
        lines.append(f"results of other code, accepted by --touch: {count} ({record} names them)")
    return lines
