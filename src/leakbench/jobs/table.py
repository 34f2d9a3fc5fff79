"""table: turn the scores of an experiment's cells into one table, its trials, and the pictures it shows."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from leakbench.base.artefacts import write_listed, write_table, write_tensors
from leakbench.base.provenance import provenance
from leakbench.catalogue.cell import PICTURED, Cell
from leakbench.results.tables.of_attacks import of_attacks
from leakbench.results.tables.of_studies import of_studies
from leakbench.results.tables.pictures import Files

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import TableSpec


def _files(cells: Sequence[Cell], *given: Sequence[Path]) -> list[Files]:
    """Return the files of each cell from those of each kind, which are given once, in the cells' order."""
    names = [tuple(map(cell.path, PICTURED)) for cell in cells]
    kinds = zip(zip(*names, strict=True), given, strict=False)
    found = [dict(zip(dict.fromkeys(kind), files, strict=True)) for kind, files in kinds]
    return [Files(*(files[name] for files, name in zip(found, each, strict=True))) for each in names]


def table(
    scores: list[Path], spec: "TableSpec", out: Path, exhibit: Path, trials: Path,
    costs: Sequence[Path] | None = None, guesses: Sequence[Path] | None = None,
    truths: Sequence[Path] | None = None, victims: Sequence[Path] | None = None,
    data: Sequence[Path] | None = None,
) -> None:  # fmt: skip
    """Write tables/<experiment>.csv, trials/<experiment>.parquet and exhibits/<experiment>.safetensors.

    The files that pictures are taken from are given where the experiment shows any. Each file is given once,
    in the order in which the spec's cells first need it.

    scores: a file for each capture, or for each training study.
    spec: the spec of the job.
    out: the file of the table.
    exhibit: the file of the pictures.
    trials: the file of the trials.
    costs: what each training study cost, in the order of `scores`.
    guesses: the guesses that pictures are taken from.
    truths: the truths that pictures are taken from.
    victims: the victims that pictures are taken from.
    data: the data sets that pictures are taken from.
    """
    if spec.studies is not None:
        found = of_studies(spec, scores, costs or [])
    else:
        shown = spec.parsed if spec.experiment.exhibit else []
        files = _files(shown, guesses or [], truths or [], victims or [], data or [])
        found = of_attacks(spec, scores, files)
    made = provenance(spec.plain(), "leakbench.jobs.table")
    more = {"scale": spec.scale, "seeds": spec.experiment.seeds, "shares": spec.shares}
    write_table(trials, found.trials, made)
    write_tensors(exhibit, found.tensors, found.facts | more | made)
    write_listed(out, found.table.to_csv(index=False, float_format="%.6g"))
