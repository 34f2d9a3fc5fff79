"""Entries of the leaderboards: defences under agreed attacks, attacks on agreed defences, as JSON files."""

import hashlib
import html
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from leakbench.base.artefacts import read_json, to_json
from leakbench.base.errors import UserError
from leakbench.base.parts import NAME
from leakbench.base.whole import SEAL, UNSEALED
from leakbench.base.yamls import Strict, suggest, validated, yaml_of
from leakbench.papers.verdicts.tolerances import possible

VERSION = 1
# The metric that ranks entries, by its mean over updates, highest over attacks. A higher value means that an
# attack reads more.
RANKED_BY = "ssim"
# A larger file is no entry of a defence.
MOST_BYTES = 1_000_000
Text = Annotated[str, Field(min_length=1)]


class Line(Strict):
    """One measured number: a metric of an attack's reconstructions from one client's updates of a victim."""

    dataset: str
    victim: str
    defence: str
    attack: str
    client: Annotated[int, Field(ge=0)]
    local_samples: Annotated[int, Field(ge=1)]
    metric: str
    mean: float
    ci_low: float | None
    ci_high: float | None
    n: Annotated[int, Field(ge=1)]
    failure_rate: Annotated[float, Field(ge=0, le=1)]

    def place(self) -> tuple[str | int, ...]:
        """Return what the number was measured on: the names of its cell and client, and its metric."""
        of = self.dataset, self.victim, self.defence, self.attack, self.client, self.local_samples
        return *of, self.metric


class Entered(Strict):
    """An entered defence or attack with the files that make it and what was measured of it."""

    version: int  # of the form of entries
    kind: Literal["defence", "attack"] = Field("defence", exclude_if=lambda value: value == "defence")
    name: Annotated[str, Field(pattern=f"^{NAME}$")]  # its name in the catalogue
    summary: Text
    source: Text  # the text of its Python file
    settings: Text  # the text of its YAML
    attacker: str  # the text of the file of a defence's adaptive attacker, empty without one
    ensemble: str
    scale: Text
    device: Text
    commit: str
    versions: dict[str, str]  # library → its version in the run
    # On how many networks each cell was measured, those of the seeds from 0 on.
    networks: Annotated[int, Field(ge=1, exclude_if=lambda value: value == 1)] = 1
    lines: list[Line]  # the numbers of the attack; or of the defence, and those of `none` in the same run
    absent: dict[str, Text]  # cell → why it has no number


@dataclass(frozen=True)
class Agreed:
    """The cells, attacks and metrics that are agreed on today, and the scales at which they may run."""

    digest: str
    cells: frozenset[tuple[str, str, str, str]]  # data set, victim, federation and attack of each cell
    defences: frozenset[str]  # what an entered attack meets, `none` among them
    adaptive: frozenset[str]  # the attacks that adapt to a defence
    metrics: frozenset[str]
    scales: tuple[str, ...]  # the scales of the catalogue, the longest run first


def read_entry(path: Path, agreed: Agreed) -> Entered:
    again = "enter it again: leakbench enter FILE.py"
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise UserError(f"{path}: larger than {MOST_BYTES} bytes, which no entry is")
    value = read_json(path, "an entry", again)
    if value.get("version") != VERSION:
        raise UserError(f"{path}: version: is {value.get('version')!r} and must be {VERSION} ({again})")
    entry = validated(Entered, value, f"{path}: ", "docs/entering.md")
    if path.read_bytes() != _written(entry):
        raise UserError(f"{path}: has no digest of its own in the form that is written ({again})")
    if path.stem != entry.name:
        raise UserError(f"{path}: name: is '{entry.name}' and must be the file's ({again})")
    return agreeing(entry, agreed, f"{path}: ", again)


def agreeing(entry: Entered, agreed: Agreed, where: str, mend: str) -> Entered:
    """Return an entry that has exactly what is agreed."""
    if entry.ensemble != agreed.digest:
        raise UserError(f"{where}ensemble: other attacks were agreed on since ({mend})")
    if entry.scale not in agreed.scales:
        raise UserError(f"{where}scale: '{entry.scale}' is no scale ({suggest(entry.scale, agreed.scales)})")
    if wrong := _beyond(entry, agreed) or _lacking(entry, agreed):
        raise UserError(f"{where}lines: {wrong} ({mend})")
    return entry


def _written(entry: Entered) -> bytes:
    """Return the bytes of an entry's file, with its digest among them. No file of another form is an entry.

    The digest might not be found in it, and the bytes would then not be held to it.
    """

    def text(seal: str) -> bytes:
        # An escape in a file may stand for a lone surrogate. It is let through here, because no file has such
        # bytes: the file then differs from these bytes and is refused.
        own = entry.model_dump(mode="json") | {SEAL: seal}
        return f"{to_json(own)}\n".encode(errors="surrogatepass")

    return text(hashlib.sha256(text(UNSEALED)).hexdigest())


def _expected(entry: Entered, agreed: Agreed) -> tuple[set[tuple[str, str, str, str]], set[str]]:
    """Return the cells that an entry must have, without their defence, and the defences."""
    if entry.kind == "attack":
        return {(*cell[:3], entry.name) for cell in agreed.cells}, {*agreed.defences}
    return {*agreed.cells}, {entry.name, "none"}


def _beyond(entry: Entered, agreed: Agreed) -> str:
    """Return in words which line is of no agreed cell, is there twice or has an impossible value."""
    places, defences = _expected(entry, agreed)
    cells = {(dataset, victim, attack) for dataset, victim, _, attack in places}
    seen = set()
    for line in entry.lines:
        place = line.place()
        what = ", ".join(map(str, place))
        if (line.dataset, line.victim, line.attack) not in cells or line.metric not in agreed.metrics:
            return f"{what}: is no agreed attack or metric"
        if line.defence not in defences:
            return f"{what}: is of another defence than {' and '.join(map(repr, sorted(defences)))}"
        if place in seen:
            return f"{what}: is there twice"
        seen.add(place)
        if possible(line.metric, line.mean, line.mean) != (line.mean, line.mean):
            return f"{what}: {line.mean:g} is no value of {line.metric}"
        if line.ci_low is not None and line.ci_high is not None and line.ci_low > line.ci_high:
            return f"{what}: its interval ends before it begins"
    return ""


def _lacking(entry: Entered, agreed: Agreed) -> str:
    """Return in words which victim or cell has neither a number that ranks nor a reason."""
    places, defences = _expected(entry, agreed)
    victims = {cell[:2] for cell in places}
    for defence in sorted(defences):
        ranked = {line[:2] for line in _ranked(entry, defence)}
        if entry.kind == "defence" and ranked != victims:
            return f"must have {RANKED_BY} of '{entry.name}' and of 'none' on each victim"
        for dataset, victim, federation, attack in sorted(places):
            # Without a defence there is nothing to adapt to.
            idle = defence == "none" and attack in agreed.adaptive
            stem = f"{dataset}/{victim}/{federation}/{defence}/{attack}"
            excused = idle or any(cell.startswith(f"{stem}/") for cell in entry.absent)
            if not excused and (dataset, victim, attack) not in _ranked(entry, defence):
                return f"have no {RANKED_BY} of {stem}, and no reason is given"
    return ""


def _ranked(entry: Entered, defence: str) -> set[tuple[str, str, str]]:
    """Return data set, victim and attack of each number that may rank a defence."""
    lines = (line for line in entry.lines if line.metric == RANKED_BY and line.defence == defence)
    return {(line.dataset, line.victim, line.attack) for line in lines}


def lines_of(rows: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Return the rows of an experiment's table as lines of an entry."""
    keys = set(Line.model_fields)
    return [
        validated(Line, {
            key: None if _none(value) else value
            for key, value in row.items() if key in keys
        }, "a line of the table: ", "docs/entering.md")
        for row in rows
        if not row["baseline"] and not _none(row["mean"])
    ]  # fmt: skip


def _none(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def strongest(entry: Entered, defence: str) -> list[Line]:
    """Return, for each data set and victim, the line of the attack that reads most under `defence`."""
    found: dict[tuple[str, str], Line] = {}
    for line in entry.lines:
        place = (line.dataset, line.victim)
        more = place not in found or line.mean > found[place].mean
        if line.metric == RANKED_BY and line.defence == defence and more:
            found[place] = line
    return [found[place] for place in sorted(found)]


def board(entries: Sequence[Entered], scales: Sequence[str]) -> str:
    """Return the leaderboard of defences as a Markdown text."""
    # The entries of each scale have a table of their own, because an attack that runs longer reads more.
    of_each = {scale: [each for each in entries if each.scale == scale] for scale in scales}
    return "\n\n".join(f"## Scale {scale}\n\n{_table(of)}" for scale, of in of_each.items() if of)


def board_of_attacks(entries: Sequence[Entered], known: Mapping[str, Sequence[Line]]) -> str:
    """Return the leaderboard of attacks as a Markdown text: each beside the best known attack."""
    # known: scale → the recorded lines of the agreed attacks at that scale.
    titles = (
        "attack", "scale", "data, victim", "defence", "SSIM", "95 % interval", "n", "best known attack",
        "compared with it",
    )  # fmt: skip
    rows = ["| " + " | ".join(titles) + " |", "| --- " * len(titles) + "|"]
    for entry in entries:
        for line in sorted(entry.lines, key=Line.place):
            if line.metric != RANKED_BY:
                continue
            others = [each for each in known.get(entry.scale, ()) if _cell_of(each) == _cell_of(line)]
            best = max(others, key=lambda other: other.mean, default=None)
            cells = (
                _described(entry), entry.scale, f"{line.dataset}, {line.victim}", line.defence,
                f"{line.mean:.3f}", _interval(line), _updates(entry, line),
                f"{best.attack} {best.mean:.3f} ({_interval(best)})" if best else "none is recorded",
                _compared(line, best),
            )  # fmt: skip
            rows.append(f"| [{entry.name}]({entry.name}.json): " + " | ".join(map(_cell, cells)) + " |")
    return "\n".join(rows)


def _cell_of(line: Line) -> tuple[str | int, ...]:
    return line.dataset, line.victim, line.defence, line.client, line.local_samples, line.metric


def _compared(line: Line, best: Line | None) -> str:
    """Return in words whether an attack reads more than the best known one, as far as both intervals tell."""
    bounds = (line.ci_low, line.ci_high, best.ci_low, best.ci_high) if best else (None,)
    if best is None or any(bound is None for bound in bounds):
        return "nothing"
    low, high, least, most = (bound or 0.0 for bound in bounds)
    return "reads more" if low > most else "reads less" if high < least else "no difference is shown"


def _table(entries: Sequence[Entered]) -> str:
    """Return the table of the entries of one scale, ranked by their worst victims."""
    ranked = sorted(entries, key=lambda e: (max(line.mean for line in strongest(e, e.name)), e.name))
    titles = (
        "defence", "data, victim", "strongest attack", "SSIM", "95 % interval", "n", "without the defence",
        "adaptive attacker",
    )  # fmt: skip
    head = ["| " + " | ".join(titles) + " |", "| --- " * len(titles) + "|"]
    rows = [
        f"| [{entry.name}]({entry.name}.json): "
        + " | ".join(map(_cell, (
            _described(entry), f"{line.dataset}, {line.victim}", f"{line.attack}{_without(entry, line)}",
            f"{line.mean:.3f}", _interval(line), _updates(entry, line), f"{plain.attack} {plain.mean:.3f}",
            "its own" if entry.attacker else "none was written",
        ))) + " |"
        for entry in ranked
        for line, plain in zip(strongest(entry, entry.name), strongest(entry, "none"), strict=True)
    ]  # fmt: skip
    return "\n".join([*head, *rows])


def _described(entry: Entered) -> str:
    """Return an entry's summary, with the parameters that its settings give the defence."""
    try:
        parameters = yaml_of(entry.settings, entry.name).get("parameters")
    except UserError:
        return entry.summary
    if not isinstance(parameters, dict) or not parameters:
        return entry.summary
    words = ", ".join(f"{name} {value}" for name, value in parameters.items())
    return f"{entry.summary.removesuffix('.')} ({textwrap.shorten(words, 100, placeholder=' …')})."


def _without(entry: Entered, line: Line) -> str:
    """Return in words which attacks on a line's victim have no number under the defence."""
    cells = [cell.split("/") for cell in sorted(entry.absent)]
    names = [
        cell[4]
        for cell in cells
        if len(cell) == 6 and [*cell[:2], cell[3]] == [line.dataset, line.victim, entry.name]
    ]
    return f" (no number: {', '.join(names)})" if names else ""


def _cell(text: str) -> str:
    """Return a stranger's text for a cell of a table, with all signs of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", html.escape(" ".join(text.split()), quote=False))


def _updates(entry: Entered, line: Line) -> str:
    return str(line.n) if entry.networks == 1 else f"{line.n} of {entry.networks} networks"


def _interval(line: Line) -> str:
    if line.ci_low is None or line.ci_high is None:
        return "none (too few updates)"
    return f"{line.ci_low:.3f} to {line.ci_high:.3f}"
