"""A run of the workflow as a command asks for it: its settings, its targets, and what lies in its folders."""

import difflib
import fcntl
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from leakbench.base.artefacts import read_json, told, write_json, write_text
from leakbench.base.code import code_of
from leakbench.base.digest import digest, write_changed
from leakbench.base.errors import UserError, raise_if_unwritable
from leakbench.base.yamls import Name, Seed, Strict, suggest, validated
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.resolve import Plan

MANUAL = "docs/workflow.md"


def _device(name: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", name):
        raise ValueError(f"no device, got {name!r} (write cpu, cuda, or cuda: with a number)")
    return name


class Settings(Strict):
    """The keys of `snakemake --config` (docs/workflow.md explains them)."""

    scale: Name = "quick"
    seed: Seed | None = None
    # The names of the experiments that run, separated by commas, or None for all.
    only: Annotated[str, Field(pattern=r"^[a-z0-9-]+(,[a-z0-9-]+)*$")] | None = None
    device: Annotated[str, AfterValidator(_device)] = "cpu"
    # Snakemake gives `confirm=yes` as a word.
    confirm: Annotated[bool, Field(strict=False)] = False  # whether a long run is meant


def checked(config: Mapping[str, Any]) -> Settings:
    """Return the settings of `--config`. Raises UserError for a key or a value that does not fit."""
    # `--config only=` gives no value, which must not be read as "all of them".
    if empty := next((key for key, value in config.items() if value is None), ""):
        raise UserError(f"--config {empty}: is given without a value (write one, or leave the key out)")
    return validated(Settings, dict(config), "--config ", MANUAL)


# Below a run's folder: folders with one file for each experiment → the suffix of the files (_SHOWN), folders
# of specs and of what is made for cells and studies (_OF_CELLS), and single files (_PAGES).
_SHOWN = {
    "tables": "csv", "exhibits": "safetensors", "trials": "parquet", "figures": "png", "notebooks": "ipynb",
}  # fmt: skip
_OF_CELLS = (
    "specs", "records", "victims", "generators", "studies", "captures", "oracle", "truth", "guesses",
    "scores",
)  # fmt: skip
_PAGES = ("report.html", "scorecard.csv", "scorecard.json", "seeds.csv", "verified.csv", "verified.json")


def check(words: Iterable[str], plan: Plan, root: Path, home: Path) -> None:
    """Raise UserError if a command's word is a file that no rule makes, with what to write instead."""
    for folder in (home / "logs", home / "scratch"):
        if folder.exists() and not os.access(folder, os.W_OK):
            mend = "make the folder writable, then run the same command again"
            raise UserError(f"{folder}: may not be written ({mend})")
    for before, word in pairwise(["", *words]):
        # The file that an option of Snakemake writes is no target.
        if not (word.startswith("-") or before.startswith("--report") or os.path.exists(home / word)):
            _check_target(Path(os.path.normpath(word)), plan, root, own=home == root)


def _check_target(path: Path, plan: Plan, root: Path, own: bool) -> None:
    """Raise UserError with the nearest target if no rule makes a file that does not exist."""
    match path.parts:
        case ("results", plan.run, kind, name) if kind in _SHOWN:
            plan.cells_of(Path(name).stem)
            if (right := f"{Path(name).stem}.{_SHOWN[kind]}") != name:
                raise UserError(f"{path}: no rule makes it (write {path.with_name(right)})")
        case _ if not own:
            return
        case ("data", name) if name.endswith(".safetensors"):
            known = {f"{data}.safetensors" for data in load_kind(root / "config", "datasets")}
            _refuse_unless(path, name, known)
        case ("results", run, _, *_) if run != plan.run:
            scale, _, seed = run.partition("-seed")
            _refuse_unless(path, scale, load_kind(root / "config", "scales"))
            settings = f"scale={scale}" + (f" seed={seed}" if seed else "")
            raise UserError(f"{path}: belongs to another run (add --config {settings})")
        case ("results", _, page) if "." in page:
            _refuse_unless(path, page, _PAGES)
        case (page,) if "." in page and (near := difflib.get_close_matches(page, _PAGES, 1, 0.7)):
            raise UserError(f"{path}: no rule makes it (write results/{plan.run}/{near[0]})")
        case ("results", _, kind, _, *_):
            _refuse_unless(path, kind, [*_SHOWN, *_OF_CELLS])


def _refuse_unless(path: Path, name: str, known: Iterable[str]) -> None:
    if name not in (names := list(known)):
        raise UserError(f"{path}: no rule makes '{name}' ({suggest(name, names)})")


def write(root: Path, folder: str, texts: Mapping[str, str]) -> IO[str] | None:
    """Write the files of `texts` that changed, and lock the specs of the run in `folder` against other plans.

    Returns the lock, which lasts until it is closed or the process ends, or None if the folder may not be
    written or its file system has no locks. Raises UserError if a running process holds the lock with other
    specs.
    """
    # Specs outside the folder are those of data sets, which all runs share.
    own = "".join(f"{path}\n{text}" for path, text in sorted(texts.items()) if path.startswith(folder))
    held = hashlib.sha256(own.encode()).hexdigest()
    lock, alone = _locked(root / folder)
    if lock and not alone and lock.read() != held:
        raise UserError(
            f"{folder}: a run with other settings goes on here (wait for its end, or use another checkout)"
        )
    for path, text in texts.items():
        write_changed(root / path, text)
    if lock and alone:
        lock.truncate(0)
        lock.write(held)
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _locked(folder: Path) -> tuple[IO[str] | None, bool]:
    """Return a folder's lock, if it can have one, and whether no other process holds it."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a+")
        lock.seek(0)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A process that is writing specs is soon done, and one that has written them shares the lock.
            fcntl.flock(lock, fcntl.LOCK_SH)
            return lock, False
        return lock, True
    return None, True


# Kind of spec → the verb that follows the spec, and its results. `*` stands for the spec's name.
_RESULTS = {
    "train": ["train", "victims/*.safetensors"],
    "generator": ["train", "generators/*.safetensors"],
    "study": ["train", "studies/*.parquet"],
    "capture": ["capture", "captures/*.safetensors", "oracle/*.safetensors", "truth/*.safetensors"],
    "attack": ["attack", "guesses/*.safetensors"],
    "score": ["score", "scores/*.parquet"],
    "table": ["table", "trials/*.parquet", "exhibits/*.safetensors"],
}
# A clock that went back, a copy from another checkout or `snakemake --touch` hides results of another spec or
# other code from Snakemake. Each start finds them by their digests.
_ACCEPTED, _NAMED = "accepted.json", 3
Specs = Mapping[str, Mapping[str, Any]]


class _Stray(NamedTuple):
    path: str
    spec: Path
    code: tuple[str, ...]  # the digests of its code and of today's; empty for a result of another spec


def _strays(home: Path, results: str, specs: Specs) -> Iterator[_Stray]:
    """Yield each result of another spec or of other code."""
    for name, spec in specs.items():
        kind, _, stem = name.partition("/")
        verb, *made = _RESULTS.get(kind, [""])
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
    """Date files that are dated after now to now, in their order, as Snakemake would take them for newer."""
    # A clock that was set back leaves such dates. Returns the number of files that were dated anew, and the
    # paths below `home` of damaged files that were set aside and not made again. Raises UserError for a link
    # in the place of a result.
    later, lost = [], []
    for top in (home / results, home / "data"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                first, mark, _ = name.partition(".damaged")
                if mark and not path.with_name(first).exists():
                    lost.append(path.with_name(first).relative_to(home).as_posix())
                if path.is_symlink() and top != home / "data":
                    raise UserError(f"{path}: a link in the place of a result (remove it, and run again)")
                # A run that goes on may remove a file in between.
                with suppress(FileNotFoundError):
                    if (date := path.lstat().st_mtime) > now:
                        later.append((date, path))
    for turn, (_, path) in enumerate(sorted(later)):
        date = now - (len(later) - turn) / 1000
        try:
            os.utime(path, (date, date), follow_symlinks=False)
        except OSError as problem:
            raise_if_unwritable(problem, path)
            raise
    return len(later), lost


def planned(results: str, specs: Specs, paths: Iterable[str]) -> list[str]:
    """Return those of `paths`, below the run's home, that the plan has a rule for."""
    made = {f"{results}/{name}" for name in _PAGES}
    for kind, _, stem in (name.partition("/") for name in specs):
        each = [*_RESULTS.get(kind, [""])[1:], f"records/{kind}/*.json"]
        each += [f"{folder}/*.{suffix}" for folder, suffix in _SHOWN.items() if kind == "table"]
        made |= {f"{results}/{path.replace('*', stem)}" for path in each}
        made |= {f"data/{stem}.safetensors"} if kind == "fetch" else set()
    return sorted(made & {*paths})


def accept(home: Path, results: str, specs: Specs) -> None:
    """Accept, in accepted.json, the results of other code than today's; those of another spec never."""
    found = {stray.path: stray.code for stray in _strays(home, results, specs) if stray.code}
    if found or (home / results / _ACCEPTED).exists():
        write_json(home / results / _ACCEPTED, found)


def renew(home: Path, results: str, specs: Specs) -> list[str]:
    """Make Snakemake repeat every result of another spec than planned, or of other code that is not accepted.

    The spec of such a result gets one more line break, because Snakemake remembers the bytes of inputs, and
    the result is dated before it. Returns lines that say what is made again and what was accepted, without
    results that are older than their specs: Snakemake makes those again in any case.
    """
    record = home / results / _ACCEPTED
    accepted = read_json(record, "a list of accepted results", "delete it") if record.is_file() else {}
    strays = list(_strays(home, results, specs))
    again = [stray for stray in strays if not stray.code or accepted.get(stray.path) != list(stray.code)]
    # Results may share a spec, which changes its date below.
    dated = {stray: stray.spec.stat().st_mtime for stray in again}
    named = [stray.path for stray in again if (home / stray.path).stat().st_mtime >= dated[stray]]
    for stray in again:
        write_text(stray.spec, stray.spec.read_text("utf-8") + "\n")
        os.utime(home / stray.path, (0, dated[stray] - 1))
    lines = []
    if named:
        shown = ", ".join(named[:_NAMED]) + (", …" if len(named) > _NAMED else "")
        lines.append(f"results of another spec or other code, to be made again: {len(named)} ({shown})")
    if count := len(strays) - len(again):
        lines.append(f"results of other code, accepted by --touch: {count} ({record} names them)")
    return lines
