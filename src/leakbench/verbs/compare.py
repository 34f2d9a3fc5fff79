"""compare: two scorecards of the same statements, and how many verdicts changed between them."""

from pathlib import Path

from leakbench.artefacts import write_text
from leakbench.verdicts.compare import compared, read_scorecard, summary


def compare(old: Path, new: Path, out: Path | None = None) -> None:
    """Print how the verdicts of two scorecards differ.

    The rows that changed are written to `out`: id, class, old, new.
    """
    before, after = read_scorecard(old), read_scorecard(new)
    rows = compared(before, after)
    for path, frame in ((old, before), (new, after)):
        if alone := len(frame) - len(rows):
            print(f"{path}: {alone} rows are in this scorecard alone, and left out")
    print(summary(rows))
    if out is not None:
        write_text(out, rows[rows["old"] != rows["new"]].to_csv(index=False))
