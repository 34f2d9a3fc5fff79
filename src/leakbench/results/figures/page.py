"""The page of an experiment around its figure: claim, protocol, threat model, table, verdicts."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from leakbench.base.artefacts import read_csv
from leakbench.base.processes.process import commit
from leakbench.results.figures import words
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import missing, ordered, word

KINDS = {
    "dataset": "Data sets", "victim": "Victims", "federation": "Federations", "training": "Trainings",
    "attack": "Attacks", "defence": "Defences",
}  # fmt: skip
# The columns of a table that distinguish its rows, as far as they vary.
CONDITION = (
    *KINDS, "checkpoint", "client", "key", "tested", "local_samples", "threshold", "pass", "round",
    "convention",
)  # fmt: skip
VERDICTS = ("id", "verdict", "metric", "published", "measured", "ci_low", "ci_high", "n", "reason")
# A table with more rows is too long for a page; the CSV file has all of them.
LONGEST = 60


def claim(result: Result, paper: Sequence[str] = ()) -> str:
    """Return the title, what the experiment shows, and the work that says so, as Markdown."""
    spec = result.spec
    said = "Asked:" if result.own else f"Claimed ({spec['item']}):"
    lines = [f"# {spec['title']}", "", f"**{said}** {spec['shows']}"]
    for path in paper:
        about = yaml.safe_load(Path(path).read_text("utf-8"))
        cited = ", ".join(str(about[key]) for key in ("authors", "title", "year") if about.get(key))
        lines += ["", f"*{cited}.* {about.get('link', '')}".rstrip()]
        if about.get("claims"):
            lines += ["", f"The work claims: {about['claims']}"]
    return _as_text(lines)


def protocol(result: Result) -> str:
    facts, rows = result.facts, result.rows
    own = rows[rows["baseline"] == ""]
    lines = ["## Protocol", ""]
    if result.recorded:
        lines += [f"This run leaves cells to a longer one, {result.recorded}, which is shown here.", ""]
    for kind, title in KINDS.items():
        met = set(own[kind]) if kind in own else set()
        names = [name for name in result.parts(kind) if name in met] or [str(name) for name in sorted(met)]
        # Variants of one file share one summary, so their titles stand in one line.
        alike: dict[str, list[str]] = {}
        for name in names:
            alike.setdefault(_beside(result, kind, name, own), []).append(word(result, kind, name))
        lines += [f"- {title}:"] if names else []
        lines += [f"  - {', '.join(called)}{beside}" for beside, called in alike.items()]
    counts = [f"{words.span(part['n'])} {unit}s" for unit, part in own.groupby("unit")] if len(own) else ["0"]
    versions = ", ".join(f"{name} {version}" for name, version in sorted(facts.get("versions", {}).items()))
    code, spec = (facts.get(name, "")[:16] for name in ("code", "spec"))
    lines += [
        f"- n behind each number: {', '.join(counts)}",
        f"- Seeds: {words.listed(facts.get('seeds', [])) or 'not stated'}; scale: {result.spec['scale']}",
        f"- Device: {facts.get('device', 'not stated')}; {versions}",
        f"- Digest of the code: `{code}`, of the specification: `{spec}`",
    ]
    if reasons := missing(result):
        lines.append(f"- Not measured: {reasons}")
    return _as_text(lines)


def threat_model(result: Result) -> str:
    knows = words.merged(result.facts.get("knows", {}))
    if not knows:
        return "## Threat model\n\nNothing is attacked here."
    return _as_text(["## Threat model", "", *(f"- {field}: {value}" for field, value in knows.items())])


def _as_text(lines: Sequence[str]) -> str:
    """Return lines of Markdown, in which no word of the catalogue is a tag of HTML."""
    return re.sub(r"<(?=[a-zA-Z/!?])", "&lt;", "\n".join(lines))


def table(result: Result) -> pd.DataFrame:
    """Return what was measured, with a row for each condition and a column for each metric."""
    rows = result.rows[result.rows["baseline"] == ""]
    if rows.empty:
        return pd.DataFrame(index=pd.Index([], name="nothing was measured"))
    columns = [c for c in CONDITION if c in rows and rows[c].nunique(dropna=False) > 1]
    if (rows.groupby("metric")["convention"].nunique() == 1).all():
        columns = [column for column in columns if column != "convention"]
    rows = ordered(result, rows, columns)
    named = {column: [word(result, column, value) for value in rows[column]] for column in columns}
    metric = [words.called("metric", str(name)) for name in rows["metric"]]
    cells = rows.assign(**named, metric=metric, measured=[_measured(row) for row in rows.to_dict("records")])
    columns = columns or ["scale"]
    wide = cells.groupby([*columns, "metric"], sort=False)["measured"].first().unstack("metric", sort=False)
    return wide.fillna("").head(LONGEST)


def _measured(row: Mapping[Any, Any]) -> str:
    ends = f" [{row['ci_low']:.3g}, {row['ci_high']:.3g}]" if row["ci_low"] == row["ci_low"] else ""
    return f"{row['mean']:.4g}{ends} (n = {row['n']:g})"


def beyond(result: Result, path: str) -> str:
    """Return which files hold all numbers, as Markdown."""
    parts = Path(path).parts
    short = "/".join(parts[parts.index("results") :]) if "results" in parts else parts[-1]
    kept = f"`reference/{result.spec['scale']}/{parts[-1]}`; those of this run alone: "
    return f"All numbers, with nulls and snapshots: {kept if result.recorded else ''}`{short}`."


def verdicts(result: Result, scorecard: Sequence[str] = ()) -> str:
    """Return the verdicts that rest on this experiment alone, as Markdown or as an HTML table."""
    for path in scorecard:
        rows = read_csv(Path(path), keep_default_na=False, dtype=str)
        shown = rows[[column for column in VERDICTS if column in rows]]
        table = str(shown.to_html(index=False))
        return table if len(rows) else "No statement is about this experiment alone."
    return f"They stand in `results/{result.spec['scale']}/scorecard.csv`, once the whole scale has run."


def origin(result: Result, table: str) -> str:
    """Return the command that makes the figure, and the commit at which it was made, as Markdown."""
    name, scale = Path(table).stem, result.spec["scale"]
    config = "" if scale == "quick" else f" --config scale={scale}"
    command = f"## Made by\n\n    snakemake --cores 1 results/{scale}/figures/{name}.png{config}"
    made_at = commit()
    return f"{command}\n\nat commit `{made_at}`." if made_at else command


def _beside(result: Result, kind: str, name: str, own: pd.DataFrame) -> str:
    """Return a part's summary and, for an attack, how long it ran."""
    summary = str(result.parts(kind).get(name, {}).get("summary", "")).rstrip(".")
    notes = [summary] if summary else []
    if kind == "attack":
        whole, taken = result.value("attack", name, "iterations"), words.steps(own[own["attack"] == name])
        notes += [f"{taken} of {whole:,}" if whole and taken else taken] if taken else []
    return f": {'; '.join(notes)}" if notes else ""
