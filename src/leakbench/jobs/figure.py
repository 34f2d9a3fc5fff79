"""figure: run the experiments' notebook on one table and its pictures."""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from leakbench.base.artefacts import Facts, read_csv, read_facts, read_table, write_text
from leakbench.base.errors import UserError
from leakbench.base.parts import dotted
from leakbench.base.whole import listing, whole
from leakbench.catalogue.spec import opened
from leakbench.papers.marks import marks as printed_marks
from leakbench.papers.marks import sentences
from leakbench.papers.reference import TEXT, Kept, fuller
from leakbench.papers.reference import tables as recorded_tables
from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.recorded import of_records
from leakbench.papers.scorecard.scorecard import Card, to_csv
from leakbench.papers.work import Work, read_papers


def figure(
    notebook: Path, table: Path, exhibit: Path, spec: Path, out: Path, executed: Path, trials: Path,
    papers: Path, paper: Sequence[Path] | None = None, recorded: Sequence[Path] | None = None,
) -> None:  # fmt: skip
    """Write the figure, or an empty file if there is nothing to draw, and the executed notebook.

    One printed line says why the file is empty, or from which record it is drawn.

    notebook: the notebook.
    table: the table of the experiment.
    exhibit: its pictures.
    spec: the spec of the job.
    out: the file of the figure.
    executed: the file of the executed notebook.
    trials: the single trials behind the table's lines.
    papers: the folder of works, whose printed numbers and claims about this experiment are shown.
    paper: what paper.yaml says of the work.
    recorded: recorded tables of the experiment with the files beside them. The fullest is drawn where it has
    more than the table. Those of other experiments are drawn where a drawing names them.

    Raises UserError, which names the notebook and the error of its failing cell.
    """
    from leakbench.results.figures.in_process import run

    with listing(out) as picture, listing(executed) as ran, TemporaryDirectory() as beside:
        png = picture.with_suffix(".png")
        files = {"table": table, "exhibit": exhibit, "spec": spec, "trials": trials, "out": png}
        marks, card = (Path(beside) / f"{name}.csv" for name in ("marks", "verdicts"))
        whole(exhibit)
        frame, facts = read_csv(table, dtype=TEXT), read_facts(exhibit)
        shown, works = opened("figure", spec).plain(), read_papers(papers)
        known: dict[str, list[Path]] = {}
        for path in recorded or ():
            known.setdefault(path.name.partition(".")[0], []).append(path)
        kept = fullest(frame, facts, recorded_tables(known.pop(table.stem, ())), shown)
        found = (fuller(frame.head(0), recorded_tables(each), "", pictured=False) for each in known.values())
        others = [each for each in found if each]
        lines = Table(table.stem, frame, read_table(trials)[0] if len(frame) else None)
        attacks = shown["parts"].get("attack", [])
        of_attacks = {each["name"]: each["parameters"] for each in attacks}
        _statements(works, lines, facts, kept, of_attacks, card)
        # What the works print: numbers and outcomes in our words and unit, and sentences.
        printed = [printed_marks(works, name) for name in (table.stem, *(each.name for each in others))]
        printed.append(sentences(works, shown["work"], shown["item"], table.stem))
        pd.concat(printed).to_csv(marks, index=False)
        drawn = [each.table for each in (kept, *others) if each]
        lists = {"marks": [marks], "paper": paper or (), "scorecard": [card], "recorded": drawn}
        single = {name: str(path.resolve()) for name, path in files.items()}
        several = {name: [str(path.resolve()) for path in paths] for name, paths in lists.items()}
        try:
            if failed := run(notebook, ran, single | several):
                what = " ".join(failed.split())
                raise UserError(f"{notebook}: {what} (mend the notebook or what it draws)")
            if not png.is_file():
                raise UserError(f"{notebook}: wrote no figure (it must save to `out`)")
            if not png.stat().st_size:
                print(_without_picture(out, facts))
            elif kept:
                said = f"the record of the {kept.scale} scale, {kept.said()}"
                print(f"{out}: drawn from {said}")
            os.replace(png, picture)
        finally:
            png.unlink(missing_ok=True)


def _without_picture(out: Path, facts: Facts) -> str:
    """Return why a figure's file is empty, and what the user can do."""
    reasons = list(dict.fromkeys(facts["absent_cells"].values()))
    first, others = f": {reasons[0]}" if reasons else "", len(reasons) - 1
    more = f", and {others} further reason{'s' if others > 1 else ''}" if others > 0 else ""
    return (
        f"{out}: empty, because scale {facts['scale']} measures nothing of this experiment that could be "
        f"drawn{first}{more} (see what another scale runs: python -m leakbench plan --scale standard)"
    )


def _statements(
    works: Sequence[Work], lines: Table, facts: Facts, kept: Kept | None, attacks: Mapping[str, Any],
    card: Path,
) -> None:  # fmt: skip
    """Write the verdicts that rest on this experiment alone, and on the record that is drawn in its place."""
    name = lines.name
    run = ScaleEvidence(
        scale=facts["scale"], lines={name: lines} if len(lines.frame) else {}, known=None, attacks=attacks,
        absent={name: facts["absent_cells"]}, shares={name: facts.get("shares", {})},
        falls={name: facts.get("falls", {})},
    )  # fmt: skip
    records = [of_records([kept], attacks=attacks)] if kept else []
    judged = Card(works, [*records, run], run).frame(name)
    write_text(card, to_csv(judged))


def fullest(
    table: pd.DataFrame, facts: Facts, recorded: Sequence[Kept], shown: Mapping[str, Any]
) -> Kept | None:
    """Return the recorded run that is drawn in place of the table, or None where the table is drawn."""
    drawn = (import_module(dotted("drawing", each["drawing"])) for each in shown["figure"] or ())
    pictured = bool(facts["panels"]) and any(getattr(drawing, "PICTURES", False) for drawing in drawn)
    return fuller(table.fillna({"baseline": ""}), recorded, facts["scale"], pictured)
