"""Entries of the leaderboard: what the agreed attacks make of one defence, a JSON file for each below
entries/."""

import html
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from leakbench.artefacts import read_json
from leakbench.errors import Altered, UserError
from leakbench.parts import NAME
from leakbench.whole import SEAL
from leakbench.yamls import Strict, validated

VERSION = 1
# What an entry is ranked by: the mean over updates, highest over attacks; higher means that more is read.
RANKED_BY = "ssim"
# A larger file is no defence.
MOST_BYTES = 1_000_000


class Line(Strict):
    """One measured number: a metric of an attack's reconstructions of one client's updates of a victim."""

    dataset: str
    victim: str
    defence: str
    attack: str
    client: int
    local_samples: int
    metric: str
    mean: Annotated[float, Field(allow_inf_nan=False)]
    ci_low: float | None
    ci_high: float | None
    n: Annotated[int, Field(ge=0)]
    failure_rate: Annotated[float, Field(ge=0, le=1)]

    def place(self) -> tuple[str | int, ...]:
        """Return what the number is of."""
        of = self.dataset, self.victim, self.defence, self.attack, self.client, self.local_samples
        return *of, self.metric


class Entry(Strict):
    """An entered defence with the files that make it and what was measured of it.

    name: as in the catalogue. summary: one sentence. source: the text of its Python file. settings: the text
    of its YAML. attacker: the text of the file of its adaptive attacker, empty without one. ensemble: the
    digest of the agreed cells. scale, device, commit, versions: of the run. lines: its numbers and those of
    `none`, of the same run. absent: cell → why it has no number.
    """

    version: int
    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    summary: str
    source: str
    settings: str
    attacker: str
    ensemble: str
    scale: str
    device: str
    commit: str
    versions: dict[str, str]
    lines: list[Line]
    absent: dict[str, str]


def read_entry(path: Path, ensemble: str) -> Entry:
    """Return the entry of a file.

    ensemble: the digest of the cells that are agreed today. Raises UserError where the file is too large,
    altered, incomplete, of another version, or of other cells.
    """
    again = "enter the defence again: leakbench enter FILE.py"
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: larger than {MOST_BYTES} bytes, which no entry is")
    try:
        value = read_json(path, "an entry", again)
    except Altered as problem:
        raise Altered(path, problem.what, again) from problem
    if SEAL.encode() not in path.read_bytes():
        raise UserError(f"{path}: has no digest of its own ({again})")
    if value.get("version") != VERSION:
        raise UserError(f"{path}: version: is {value.get('version')!r} and must be {VERSION} ({again})")
    entry = validated(Entry, value, f"{path}: ", "docs/entering.md")
    if path.stem != entry.name:
        raise UserError(f"{path}: name: is '{entry.name}' and must be the file's ({again})")
    if entry.ensemble != ensemble:
        raise UserError(f"{path}: ensemble: other attacks were agreed on since ({again})")
    victims = {(line.dataset, line.victim) for line in entry.lines}
    ranked = (strongest(entry, defence) for defence in (entry.name, "none"))
    if not victims or any({(line.dataset, line.victim) for line in lines} != victims for lines in ranked):
        raise UserError(
            f"{path}: lines: must have {RANKED_BY} of '{entry.name}' and of 'none' on each victim ({again})"
        )
    return entry


def lines_of(rows: Iterable[dict[str, Any]]) -> list[Line]:
    """Return an experiment's table, row by row, as an entry's lines; baselines are left out."""
    keys = set(Line.model_fields)
    return [
        Line(**{
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in row.items() if key in keys
        })
        for row in rows
        if not row["baseline"] and not math.isnan(row["mean"])
    ]  # fmt: skip


def strongest(entry: Entry, defence: str) -> list[Line]:
    """Return, for each data set and victim, the line of the attack that reads most under a defence."""
    found: dict[tuple[str, str], Line] = {}
    for line in entry.lines:
        place = (line.dataset, line.victim)
        more = place not in found or line.mean > found[place].mean
        if line.metric == RANKED_BY and line.defence == defence and more:
            found[place] = line
    return [found[place] for place in sorted(found)]


def board(entries: Sequence[Entry]) -> str:
    """Return the leaderboard as a Markdown text: the defence that leaves least to its strongest attack first.

    An entry is ranked by its worst victim. A defence that no adaptive attacker was written for says so.
    """
    ranked = sorted(entries, key=lambda e: (max(line.mean for line in strongest(e, e.name)), e.name))
    titles = (
        "defence", "data, victim", "strongest attack", "SSIM", "95 % interval", "n", "without the defence",
        "adaptive attacker", "scale",
    )  # fmt: skip
    head = ["| " + " | ".join(titles) + " |", "| --- " * len(titles) + "|"]
    rows = [
        f"| [{entry.name}]({entry.name}.json): {_cell(entry.summary)} | {line.dataset}, {line.victim} | "
        f"{line.attack} | {line.mean:.3f} | {_interval(line)} | {line.n} | {plain.attack} {plain.mean:.3f} | "
        f"{'its own' if entry.attacker else 'none was written'} | {entry.scale} |"
        for entry in ranked
        for line, plain in zip(strongest(entry, entry.name), strongest(entry, "none"), strict=True)
    ]
    return "\n".join([*head, *rows])


def _cell(text: str) -> str:
    """Return a stranger's text as it may stand in a cell of a table."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|")


def _interval(line: Line) -> str:
    if line.ci_low is None or line.ci_high is None:
        return "none (too few updates)"
    return f"{line.ci_low:.3f} to {line.ci_high:.3f}"
