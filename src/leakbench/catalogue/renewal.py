"""Results that do not follow the plan: each start finds them by what they say of themselves, not by dates.

A clock that went back, a copy from another checkout or `snakemake --touch` hides them from Snakemake.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from leakbench.artefacts import read_json, told, write_json, write_text
from leakbench.catalogue.code import code_of
from leakbench.catalogue.digest import digest

# Kind of spec -> the verb that follows it, and its results; `*` stands for the spec's name.
_RESULTS = {
    "train": ("train", "victims/*.safetensors"),
    "generator": ("train", "generators/*.safetensors"),
    "study": ("train", "studies/*.parquet"),
    "capture": ("capture", "captures/*.safetensors", "oracle/*.safetensors", "truth/*.safetensors"),
    "attack": ("attack", "guesses/*.safetensors"),
    "score": ("score", "scores/*.parquet"),
    "table": ("table", "trials/*.parquet", "exhibits/*.safetensors"),
}
_SHOWN = 3


class _Stray(NamedTuple):
    """A result that differs from the plan: its path, its spec's file, and, where only the code differs, the
    digests of its code and of today's."""

    path: str
    spec: Path
    code: tuple[str, ...]


def _strays(home: Path, results: str, specs: Mapping[str, Mapping[str, Any]]) -> Iterator[_Stray]:
    for name, spec in specs.items():
        kind, _, stem = name.partition("/")
        verb, *made = _RESULTS.get(kind, ("",))
        for path in (f"{results}/{each.replace('*', stem)}" for each in made):
            if not (home / path).is_file():
                continue
            of_spec, of_code = told(home / path)
            asked, code = home / results / "specs" / f"{name}.json", code_of(spec, f"leakbench.verbs.{verb}")
            # What says that something is absent follows nothing.
            if of_spec not in ("", digest(dict(spec))):
                yield _Stray(path, asked, ())
            elif of_code not in ("", code):
                yield _Stray(path, asked, (of_code, code))


def _accepted(home: Path, results: str) -> Path:
    return home / results / "accepted.json"


def accept(home: Path, results: str, specs: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep in writing which results are of other code than today's: the digest of their code, and of the code
    for whose results they are taken. A result of another spec is never accepted."""
    found = {stray.path: stray.code for stray in _strays(home, results, specs) if stray.code}
    if found or _accepted(home, results).exists():
        write_json(_accepted(home, results), found)


def renew(home: Path, results: str, specs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """See to it that Snakemake makes every result again that follows another spec than its own or was made by
    other code, unless that was accepted. Return lines that say what is made again and what was accepted.

    Its spec gets a line break more, for Snakemake remembers the bytes of inputs, and it is dated before its
    spec. A result that is older than its spec is not named: it is made again without this.
    """
    record = _accepted(home, results)
    accepted = read_json(record, "a list of accepted results", "delete it") if record.is_file() else {}
    strays = list(_strays(home, results, specs))
    again = [stray for stray in strays if not stray.code or accepted.get(stray.path) != list(stray.code)]
    dated = {stray: stray.spec.stat().st_mtime for stray in again}
    named = [stray.path for stray in again if (home / stray.path).stat().st_mtime >= dated[stray]]
    for stray in again:
        write_text(stray.spec, stray.spec.read_text() + "\n")
        os.utime(home / stray.path, (0, dated[stray] - 1))
    lines = []
    if named:
        shown = ", ".join(named[:_SHOWN]) + (", …" if len(named) > _SHOWN else "")
        lines.append(f"results of another spec or other code, to be made again: {len(named)} ({shown})")
    if len(again) < len(strays):
        count = len(strays) - len(again)
        lines.append(f"results of other code, accepted by --touch: {count} ({record} names them)")
    return lines
