"""table: turn the scores of an experiment's cells into one table, its trials, and the pictures it shows."""

from collections.abc import Sequence
from pathlib import Path

from leakbench.base.artefacts import write_listed, write_table, write_tensors
from leakbench.base.provenance import provenance, read_spec
from leakbench.catalogue.cell import pictured
from leakbench.results.tables.of_attacks import of_attacks
from leakbench.results.tables.of_studies import of_studies
from leakbench.results.tables.pictures import Files


def _files(cells: Sequence[str], *given: Sequence[Path]) -> list[Files]:
    """Return the files of each cell.

    given: the files of each kind, each file once, in the order in which cells first need it.
    """
    names = [tuple(pictured(cell).values()) for cell in cells]
    kinds = zip(zip(*names, strict=True), given, strict=False)
    found = [dict(zip(dict.fromkeys(kind), files, strict=True)) for kind, files in kinds]
    return [Files(*(files[name] for files, name in zip(found, each, strict=True))) for each in names]


def table(
    scores: list[Path],
    spec: Path,
    out: Path,
    exhibit: Path,
    trials: Path,
    costs: Sequence[Path] | None = None,
    guesses: Sequence[Path] | None = None,
    truths: Sequence[Path] | None = None,
    victims: Sequence[Path] | None = None,
    data: Sequence[Path] | None = None,
) -> None:
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
    value = read_spec(spec)
    if "studies" in value:
        found = of_studies(value, scores, costs or [])
    else:
        shown = value["cells"] if value["experiment"]["exhibit"] else []
        found = of_attacks(
            value, scores, _files(shown, guesses or [], truths or [], victims or [], data or [])
        )
    made = provenance(value, "leakbench.jobs.table")
    more = {"scale": value["scale"], "seeds": value["experiment"]["seeds"], "shares": value["shares"]}
    write_table(trials, found.trials, made)
    write_tensors(exhibit, found.tensors, found.facts | more | made)
    write_listed(out, found.table.to_csv(index=False, float_format="%.6g"))
