"""report: the one page."""

from pathlib import Path

from leakbench.artefacts import read_csv, read_facts, write_text
from leakbench.provenance import read_spec
from leakbench.report import Section, page
from leakbench.yamls import read_yaml


def report(
    scorecard: Path,
    verified: Path,
    tables: list[Path],
    exhibits: list[Path],
    figures: list[Path],
    specs: list[Path],
    papers: Path,
    out: Path,
) -> None:
    """Write report.html from the scorecard, what `verify` found and, per experiment, its table, threat models
    and figure."""
    sections, versions = [], {}
    for table, exhibit, figure, spec in zip(tables, exhibits, figures, specs, strict=True):
        shown, facts = read_spec(spec), read_facts(exhibit)
        frame = read_csv(table)
        frame["baseline"] = frame["baseline"].fillna("")
        versions = facts["versions"]
        sections.append(
            Section(
                name=table.stem,
                work=shown["work"],
                item=shown["item"],
                title=shown["title"],
                shows=shown["shows"],
                figure=figure.read_bytes(),
                table=frame,
                knows=facts["knows"],
                absent=facts["absent_cells"],
            )
        )
    rows = read_csv(scorecard, keep_default_na=False)
    works = {path.parent.name: str(read_yaml(path)["title"]) for path in sorted(papers.glob("*/paper.yaml"))}
    scale, exact = read_spec(specs[0])["scale"], read_spec(verified)
    facts = {"scale": scale, "versions": versions, "verified": exact, "works": works}
    write_text(out, page(rows, sections, facts))
