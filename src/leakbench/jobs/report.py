"""report: write the one page of a run."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts, read_csv, read_facts, read_tensors, write_listed
from leakbench.base.errors import UserError
from leakbench.base.processes.process import commit
from leakbench.base.provenance import read_spec
from leakbench.base.whole import whole
from leakbench.base.yamls import read_yaml
from leakbench.jobs.figure import fullest
from leakbench.papers.reference import Kept
from leakbench.papers.reference import tables as recorded_tables
from leakbench.results.report.card import lines
from leakbench.results.report.leaks import best_known, of_images, on_any_network, prices
from leakbench.results.report.page import mine, page
from leakbench.results.report.script import commits
from leakbench.results.report.section import Section, with_pictures


def report(
    scorecard: Path, seeds: Path, verified: Path, tables: list[Path], exhibits: list[Path],
    figures: list[Path], specs: list[Path], papers: Path, catalogue: Path, out: Path,
    recorded: Sequence[Path] | None = None, root: Path = Path(),
) -> None:  # fmt: skip
    """Write report.html: the scorecard, what other seeds give, what `verify` found, and every experiment.

    An experiment has its table, threat models and figure. An experiment that this scale leaves out and that
    no record shows either has a line and no table. The best known leaks are those of the experiments that are
    drawn as maps of attacks and defences.

    scorecard: the scorecard of the run.
    seeds: the verdicts of statements by seed (`leakbench.jobs.scorecard`).
    verified: the summary of `verify`.
    tables: the tables of the experiments that have something to show.
    exhibits: their exhibits, in the same order.
    figures: their figures, in the same order.
    specs: the specs of every experiment's figure.
    papers: the folder of works.
    catalogue: the spec that says which experiments this scale leaves out, and why.
    out: the file of the report.
    recorded: files below reference/, from which recorded tables of these experiments are read.
    root: the checkout, for its commit and its address.
    """
    sections, versions, maps, made = [], {}, [], commit(root)
    costs: dict[str, pd.DataFrame] = {}
    parts: dict[str, list[dict[str, str]]] = {"defence": [], "dataset": [], "victim": [], "attack": []}
    everywhere: list[pd.DataFrame] = []
    threats: dict[str, dict[str, str]] = {}
    beside = {spec.stem: spec for spec in specs}
    if not specs:
        raise UserError("--specs: names no file (name the figure's spec of each table)")
    scale = read_spec(specs[0])["scale"]
    for table, exhibit, figure in zip(tables, exhibits, figures, strict=True):
        shown, facts = read_spec(beside[table.stem]), read_facts(exhibit)
        whole(exhibit), whole(figure)
        frame = read_csv(table)
        frame["baseline"] = frame["baseline"].fillna("")
        versions = facts["versions"]
        kept = recorded_tables(path for path in recorded or () if path.stem == table.stem)
        longest = fullest(frame, facts, kept, shown)
        costs[table.stem] = longest.rows if longest else frame
        for kind in parts:
            parts[kind] += shown["parts"].get(kind, [])
        others = [each.rows.assign(device=each.record["device"]) for each in kept if each.scale != scale]
        other = with_pictures(pd.concat([pd.DataFrame(), *others], ignore_index=True), _pictures(kept))
        every = of_images(pd.concat([frame, other], ignore_index=True))
        known = [each.record.get("knows", {}) for each in kept]
        knows = {cell: model for part in (*known, facts["knows"]) for cell, model in part.items()}
        everywhere, threats = [*everywhere, every], threats | knows
        if every["defence"].nunique() > 1 and any(part.get("strongest") for part in shown["figure"]):
            maps += best_known(every, knows, shown["parts"])
        own = _of_record(longest, out.parent) if longest else _of_run(table.stem, scale, made)
        own |= {"table": costs[table.stem], "figure": figure.read_bytes(), "absent": facts["absent_cells"]}
        own["knows"] = longest.record.get("knows", {}) if longest else facts["knows"]
        sections.append(_section(table.stem, shown, papers, own))
    left_out = read_spec(catalogue)["left_out"]
    for spec in (spec for spec in specs if spec.stem not in costs):
        # It has a line with its reasons, without figure or table.
        own = _of_run(spec.stem, scale, made) | {"table_file": "", "trials_file": "", "figure": b""}
        own |= {"table": pd.DataFrame(), "knows": {}, "absent": left_out[spec.stem], "made": False}
        sections.append(_section(spec.stem, read_spec(spec), papers, own))
    rows = read_csv(scorecard, keep_default_na=False)
    said = {path.parent.name: read_yaml(path) for path in sorted(papers.glob("*/paper.yaml"))}
    works = {name: str(paper["title"]) for name, paper in said.items()}
    exact = read_spec(verified)
    facts = {"scale": scale, "versions": versions, "verified": exact, "works": works, "maps": maps}
    facts["links"] = {k: v["link"] for k, v in said.items() if str(v.get("link")).startswith("https://")}
    facts["core"] = [name for name, paper in said.items() if paper.get("core")]
    facts |= {"commits": commits(root), "prices": prices(costs, parts)}
    facts["seeded"] = read_csv(seeds, dtype={"seeds": str})
    facts["overall"] = on_any_network(pd.concat(everywhere, ignore_index=True), threats, parts)
    write_listed(out, page(rows, sections, facts))
    own = mine(lines(rows), sections)
    print(
        f"{out}: this run measured {own['rows']} of the {own['of']} rows of results that have a value; "
        f"{own['recorded']} of the {own['experiments']} experiments are shown from records"
    )


def _pictures(found: Sequence[Kept]) -> dict[tuple[str, str], np.ndarray]:
    """Return (scale, cell) → the recorded picture at the median."""
    files = [(kept.scale, path) for kept in found if (path := kept.beside(".safetensors"))]
    return {(scale, cell): pair for scale, path in files for cell, pair in read_tensors(path)[0].items()}


def _of_run(name: str, scale: str, made: str) -> Facts:
    """Return where the figure and table of an experiment of this run, made at a commit, are from."""
    setting = "" if scale == "quick" else f" --config scale={scale}"
    return {
        "table_file": f"tables/{name}.csv", "trials_file": f"trials/{name}.parquet", "commit": made,
        "command": f"snakemake --cores 2 results/{scale}/figures/{name}.png{setting}", "scale": scale,
    }  # fmt: skip


def _of_record(kept: Kept, folder: Path) -> Facts:
    """Return where figure and table are from for a recorded run, with links from the report's folder."""
    trials = kept.beside(".parquet")
    return {
        "table_file": os.path.relpath(kept.table, folder),
        "trials_file": os.path.relpath(trials, folder) if trials else "",
        "commit": kept.record["commit"], "command": kept.record["command"], "scale": kept.scale,
        "recorded": kept.said(),
    }  # fmt: skip


def _section(name: str, shown: Mapping[str, Any], papers: Path, own: Mapping[str, Any]) -> Section:
    """Return an experiment's section: what its figure's spec and its work's folder say, and its `own`."""
    found = "".join(path.read_text(encoding="utf-8") for path in papers.glob(f"*/found/{name}.md"))
    about = {key: shown[key] for key in ("work", "item", "title", "shows")}
    return Section(name=name, found=found, **about, **own)
