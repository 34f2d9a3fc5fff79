"""table: from the scores of an experiment's cells to one tidy table, its trials, and the pictures it
shows."""

from collections.abc import Sequence
from pathlib import Path

from leakbench.artefacts import write_table, write_tensors, write_text
from leakbench.provenance import provenance, read_spec
from leakbench.tables.of_attacks import of_attacks
from leakbench.tables.of_studies import of_studies
from leakbench.tables.pictures import Files


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

    scores: a file for each capture, or for each training study, and then `costs` is what each cost. guesses,
    truths, victims and data: what the pictures of each cell are taken from, in the order of the spec's cells,
    where the experiment shows any.
    """
    value = read_spec(spec)
    if "studies" in value:
        found = of_studies(value, scores, costs or [])
    else:
        given = zip(guesses or [], truths or [], victims or [], data or [], strict=True)
        found = of_attacks(value, scores, [Files(*each) for each in given])
    made = provenance(value, "leakbench.verbs.table")
    more = {"scale": value["scale"], "seeds": value["experiment"]["seeds"], "shares": value["shares"]}
    write_table(trials, found.trials, made)
    write_tensors(exhibit, found.tensors, found.facts | more | made)
    write_text(out, found.table.to_csv(index=False, float_format="%.6g"))
